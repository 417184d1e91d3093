"""Why and when should you pool? The paper in one file: texts, model, training and gradients.

    python book/minimal.py --pooling last --setting mid
    python book/minimal.py --pooling max_attention --setting mid

A BiLSTM reads reviews that stand in the middle of filler. Without pooling (last) it guesses, with
max-attention it learns. The file needs torch alone.

Letters in the shapes: B texts, T words of the longest text, E numbers of a word's vector, H units
of one direction, D = 2H units of both, C classes.
"""

import argparse
import csv
import random
import re
import sys
from collections import Counter

import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize

POOLINGS = ("last", "mean", "max", "attention", "max_attention")
SETTINGS = ("standard", "left", "mid", "right")
UNKNOWN, PADDING = 0, 1  # the first two numbers; those of words begin at 2

# --- Texts
# -----------------------------------------------------------------------------------------------
# A small grammar makes reviews and, as filler, sentences of an encyclopedia. A word in capital
# letters stands for any word of its list. Some adjectives of a review are evidence for its class.

EVIDENCE = (  # of class 0 and of class 1
    "awful boring clumsy dreadful dull hollow lifeless messy painful tedious".split(),
    "brilliant charming graceful gripping lovely moving splendid superb vivid witty".split(),
)
LISTS = {
    "ADJECTIVE": (
        "small second early usual large recent quiet whole single long plain narrow"
    ).split(),
    "NOUN": (
        "part scene room day street story table door voice page moment letter song floor"
    ).split(),
    "PERSON": (
        "brother teacher stranger driver doctor writer guest waiter student neighbour"
    ).split(),
    "DID": "saw found kept brought left followed opened mentioned bought watched showed".split(),
    "PLACE": "asten dunmere halvik torrada brenna lisova quarrel eskedal odmoor vashta".split(),
    "THING": "river bridge parish canal fortress valley harbour village plateau railway".split(),
    "YEAR": "1612 1701 1745 1788 1823 1866 1890 1907 1931 1954".split(),
}
REVIEW = (
    "the ADJECTIVE NOUN was on the ADJECTIVE NOUN .",
    "then my PERSON DID the ADJECTIVE NOUN and one ADJECTIVE NOUN .",
    "we DID that ADJECTIVE NOUN with the ADJECTIVE PERSON .",
)
ENCYCLOPEDIA = (
    "PLACE is a THING in the north of PLACE , built in YEAR .",
    "the THING of PLACE was closed between YEAR and YEAR .",
    "after YEAR the THING belonged to PLACE .",
)


def sentence(frames, rng):
    return [rng.choice(LISTS.get(word, [word])) for word in rng.choice(frames).split()]


def review(label, rng, density=0.4, agreement=0.8):
    """A text of 60 to 80 words. A part `density` of its adjectives is evidence; a part `agreement`
    of the evidence speaks for the class of the text, the rest for the other class."""
    words, length = [], rng.randint(60, 80)
    while len(words) < length:
        words += sentence(REVIEW, rng)
    for place, word in enumerate(words):
        if word in LISTS["ADJECTIVE"] and rng.random() < density:
            words[place] = rng.choice(EVIDENCE[label if rng.random() < agreement else 1 - label])
    return words[:length]


def filler(rng):
    """Sentences without end."""
    while True:
        yield sentence(ENCYCLOPEDIA, rng)


def compose(words, sentences, setting, share=0.66):
    """Put a text among filler, which is a part `share` of all words: alone (standard), to the left
    of the filler, in the middle of it, or to the right of it."""
    total = 0 if setting == "standard" else round(len(words) * share / (1 - share))
    left = {"mid": total // 2, "right": total}.get(setting, 0)
    sides = []
    for count in (left, total - left):
        side = []
        while len(side) < count:
            side += next(sentences)
        sides.append(side[:count])  # the last sentence is cut
    return sides[0] + words + sides[1]


def made_up(size, rng):
    """Balanced (words, label) for training, validation and test."""
    sizes = (size, size // 4 + 1, size)
    return [[(review(n % 2, rng), n % 2) for n in range(count)] for count in sizes]


def read(file, size, rng):
    """The same from a table with the columns text and label: 3/5, 1/5 and 1/5, at most `size`
    each."""
    try:
        with open(file, newline="", encoding="utf-8-sig") as stream:
            table = csv.DictReader(stream)
            for name in ("text", "label"):
                if name not in (table.fieldnames or ()):
                    sys.exit(f"minimal.py: {file} has no column {name!r}")
            rows = [row for row in table if row["label"] and (row["text"] or "").strip()]
    except (OSError, UnicodeError, csv.Error) as error:
        sys.exit(f"minimal.py: {file} cannot be read: {error}")
    classes = sorted({row["label"] for row in rows})
    if len(classes) < 2 or len(rows) < 10:
        sys.exit(f"minimal.py: {file} is too small: {len(rows)} texts of {len(classes)} classes")
    rng.shuffle(rows)
    texts = [re.findall(r"\w+|[^\w\s]", row["text"].lower()) for row in rows]
    pairs = [(words, classes.index(row["label"])) for words, row in zip(texts, rows, strict=True)]
    first, second = len(pairs) * 3 // 5, len(pairs) * 4 // 5
    return pairs[:first][:size], pairs[first:second][:size], pairs[second:][:size]


def vocabulary(texts, most=25_000):
    """The number of each word, frequent words first."""
    counts = Counter(word for words, _ in texts for word in words).most_common(most)
    return {word: number for number, (word, _) in enumerate(counts, 2)}


def batch(texts):
    """Texts as numbers -> ids (B, T), padded on the right, lengths (B,), labels (B,)."""
    rows = [torch.tensor(numbers) for numbers, _ in texts]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)
    return (
        ids,
        torch.tensor([len(row) for row in rows]),
        torch.tensor([label for _, label in texts]),
    )


# --- Model: word vectors, a BiLSTM, a pooling, a linear classifier
# ---------------------------------------


def flip(x, lengths):
    """Reverse each text of (B, T, ·) within its own length; the padding stays behind it."""
    place, n = torch.arange(x.shape[1]), lengths.unsqueeze(1)  # (T,), (B, 1)
    source = torch.where(place < n, n - 1 - place, place)  # (B, T)
    return x.take_along_dim(source.unsqueeze(2), 1)


def pool(pooling, states, mask, query):
    """States (B, T, D) of the words, where the mask (B, T) is true -> one embedding a text (B,
    D)."""
    largest = states.masked_fill(~mask.unsqueeze(2), -torch.inf).max(1).values  # (B, D)
    if pooling == "last":  # what each direction knows after it has read the whole text
        end = states[torch.arange(len(states)), mask.sum(1) - 1]  # (B, D)
        H = states.shape[2] // 2
        return torch.cat([end[:, :H], states[:, 0, H:]], 1)
    if pooling == "max":
        return largest
    if pooling == "mean":  # all words weigh the same
        scores = torch.zeros_like(states[:, :, 0])  # (B, T)
    elif pooling == "attention":  # the query (D,) is learnt, one for all texts
        scores = states @ query
    # max_attention: the query is the maximum of this text; states are scaled to length 1 to be
    # scored
    else:
        scores = (normalize(states, dim=2) * largest.unsqueeze(1)).sum(2)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(1)  # (B, T)
    return (weights.unsqueeze(2) * states).sum(1)


class Model(nn.Module):
    """Word numbers in, logits of the classes out."""

    def __init__(self, words, classes, pooling, units=32, forget_bias=None, size=100):
        super().__init__()
        self.pooling = pooling
        self.embedding = nn.Embedding(words, size)
        # two LSTMs of one direction each: a packed bidirectional one gives the same and is slower
        self.lstms = nn.ModuleList(nn.LSTM(size, units, batch_first=True) for _ in range(2))
        if (
            forget_bias is not None
        ):  # of torch's four gates the second; its two bias vectors are added
            for lstm in self.lstms:
                lstm.bias_ih_l0.data[units : 2 * units] = forget_bias
                lstm.bias_hh_l0.data[units : 2 * units] = 0
        bound = (2 * units) ** -0.5
        self.query = nn.Parameter(
            torch.empty(2 * units).uniform_(-bound, bound)
        )  # (D,), for attention
        self.classifier = nn.Linear(2 * units, classes)

    def states(self, ids, lengths, run=lambda lstm, x: lstm(x)[0]):
        """(B, T) -> the states (B, T, D), and the mask (B, T), true on words. Padding stands behind
        each text: an LSTM that reads from left to right sees it after all words. For the other
        direction each text is reversed, read from left to right, and its states are reversed
        back."""
        mask = torch.arange(ids.shape[1]) < lengths.unsqueeze(1)
        x = self.embedding(ids)  # (B, T, E)
        left_to_right = run(self.lstms[0], x)  # (B, T, H)
        right_to_left = flip(run(self.lstms[1], flip(x, lengths)), lengths)
        return torch.cat([left_to_right, right_to_left], 2) * mask.unsqueeze(2), mask

    def classify(self, states, mask):
        return self.classifier(pool(self.pooling, states, mask, self.query))  # (B, C)

    def forward(self, ids, lengths):
        return self.classify(*self.states(ids, lengths))


# --- Training, and the gradient at each word
# -------------------------------------------------------------


def batches(texts, size=32):
    """Batches of similar length; texts of one length stay in their order."""
    texts = sorted(texts, key=lambda text: len(text[0]))
    return [batch(texts[start : start + size]) for start in range(0, len(texts), size)]


@torch.no_grad()
def accuracy(model, texts):
    right = sum((model(ids, n).argmax(1) == labels).sum() for ids, n, labels in batches(texts))
    return 100 * int(right) / len(texts)


def train(model, texts, validation, epochs, rate, rng):
    """Adam on the cross-entropy. The model ends with the weights of the best validation
    accuracy."""
    optimizer, best = torch.optim.Adam(model.parameters(), lr=rate), -1.0
    for epoch in range(1, epochs + 1):
        total, order = 0.0, batches(rng.sample(texts, len(texts)))
        rng.shuffle(order)
        for ids, lengths, labels in order:
            loss = cross_entropy(model(ids, lengths), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(ids)
        found = accuracy(model, validation)
        print(f"epoch {epoch:2}: training loss {total / len(texts):.3f}, validation {found:5.1f} %")
        if found > best:
            best, weights = (
                found,
                {name: value.clone() for name, value in model.state_dict().items()},
            )
    model.load_state_dict(weights)


def gradient_norms(model, ids, lengths, labels):
    """‖∂L/∂h_t‖ of each word, (B, T), 0 after the end of a text. L is the loss of the text itself,
    h_t both directions at word t. The LSTMs go word by word, so that the state that the next word
    receives is the tensor that is pooled: its gradient is the whole one, by both ways."""
    kept = []

    def word_by_word(lstm, x):
        memory, steps = None, []
        for t in range(x.shape[1]):
            _, memory = lstm(x[:, t : t + 1], memory)  # h_t and c_t, (1, B, H) each
            memory[0].retain_grad()
            steps.append(memory[0])
        kept.append(steps)
        return torch.cat(steps).transpose(0, 1)  # (B, T, H)

    logits = model.classify(*model.states(ids, lengths, word_by_word))
    cross_entropy(logits, labels, reduction="sum").backward()  # no text changes another's gradient
    model.zero_grad()
    one, other = (
        torch.cat([h.grad for h in steps]).transpose(0, 1) for steps in kept
    )  # (B, T, H) each
    both = torch.cat([one, flip(other, lengths)], 2)  # (B, T, D)
    return both.double().norm(dim=2)  # the square of a tiny number would be 0 in float32


def profile(model, texts):
    """The mean gradient norm at the first, middle and last word of some texts, over that at the
    first."""
    ids, lengths, labels = batch(texts[:100])
    norms = gradient_norms(model, ids, lengths, labels)
    places = torch.stack([torch.zeros_like(lengths), lengths // 2, lengths - 1], 1)  # (B, 3)
    means = norms.gather(1, places).mean(0)
    return "first {:.1e}  middle {:.1e}  last {:.1e}".format(*means / means[0])


def main(arguments=None):
    """Train one model on one setting; returns its test accuracy in %."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pooling", choices=POOLINGS, default="max_attention")
    parser.add_argument("--setting", choices=SETTINGS, default="mid", help="place in the filler")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--units", type=int, default=32, help="of each direction")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=1000, help="training texts")
    parser.add_argument(
        "--forget-bias", type=float, help="sum; default: 1 for last, else torch's own"
    )
    parser.add_argument("--texts", metavar="CSV", help="your own, with the columns text and label")
    asked = parser.parse_args(arguments)
    if min(asked.epochs, asked.units, asked.size) < 1 or not asked.rate > 0:
        sys.exit("minimal.py: --epochs, --units, --size and --rate must be greater than 0")
    if asked.forget_bias is None and asked.pooling == "last":
        asked.forget_bias = 1.0  # as in the paper

    rng = random.Random(asked.seed)
    torch.manual_seed(asked.seed)
    splits = read(asked.texts, asked.size, rng) if asked.texts else made_up(asked.size, rng)
    sentences = filler(rng)
    splits = [[(compose(words, sentences, asked.setting), y) for words, y in own] for own in splits]
    known, classes = vocabulary(splits[0]), 1 + max(y for own in splits for _, y in own)
    splits = [
        [([known.get(word, UNKNOWN) for word in words], y) for words, y in own] for own in splits
    ]
    training, validation, test = splits
    model = Model(len(known) + 2, classes, asked.pooling, asked.units, asked.forget_bias)
    before = profile(model, test)
    train(model, training, validation, asked.epochs, asked.rate, rng)
    tested = accuracy(model, test)
    print(f"{asked.pooling} in {asked.setting}: test {tested:.1f} %")
    print(f"gradient before training: {before}\ngradient after training:  {profile(model, test)}")
    return tested


if __name__ == "__main__":
    main()
