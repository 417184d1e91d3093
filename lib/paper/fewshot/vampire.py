"""VAMPIRE: topics learnt from unlabelled texts, used to classify a few labelled ones (thesis
§1.10.2).

The method is that of Gururangan et al. (2019), §3, with the 64 topics and two hidden layers of
their published settings. What differs is small: counts enter as log(1 + count), `BagVocabulary`
takes the place of a list of stop words, and the number of steps is fixed.

Letters: N texts, B of them in a batch, T words of the longest in the batch, V words of the
vocabulary, K topics, which are also the units of a hidden layer, C classes.
"""

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.base.errors import check
from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN_INDEX, Ragged, Texts
from whenpool.corpora.tokens import tokenize

FIRST = PADDING_INDEX + 1  # The number of the first word, behind the unknown word and padding


class BagOfWordsVAE(nn.Module):
    """A variational autoencoder of bags of words with K >= 2 logistic normal ``topics``.

    Two hidden layers h with softplus read log(1 + bag). From the last come μ and log σ², then z = μ
    + σε with ε ~ N(0, 1), the topics θ = softmax(z), and the probabilities of words, softmax(d +
    n(θW)). d is the logarithm of each word's frequency in all texts, from its ``counts`` (V,), all
    above 0, so that topics say only what sets a text apart; n is a BatchNorm whose scale stays 1.
    """

    background: Tensor

    def __init__(self, counts: Tensor, topics: int = 64) -> None:
        super().__init__()
        self.words, self.topics = len(counts), topics
        self.register_buffer("background", (counts / counts.sum()).log())  # d
        self.layers = nn.ModuleList([nn.Linear(self.words, topics), nn.Linear(topics, topics)])
        self.mean = nn.Linear(topics, topics)
        self.log_variance = nn.Linear(topics, topics)
        self.decoder = nn.Linear(topics, self.words, bias=False)  # W
        # their eps: the noise of the draws is not blown up while all texts have about the same
        # topics
        self.norm = nn.BatchNorm1d(self.words, eps=1e-3)
        self.norm.weight.requires_grad_(False)

    def elbo(self, bag: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The two parts of each bag's evidence lower bound, reconstruction - kl: (B, V) -> log
        p(bag | θ), with one draw of ε from the generator, and KL(N(μ, σ²) ‖ N(0, 1)), (B,) each."""
        _, hidden, _ = self.features(bag)  # (B, K)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        noise = torch.randn(mean.shape, generator=generator, device=generator.device)
        theta = (mean + (log_variance / 2).exp() * noise.to(mean)).softmax(1)  # (B, K)
        scores = self.background + self.norm(self.decoder(theta))  # (B, V)
        reconstruction = (bag * scores.log_softmax(1)).sum(1)
        kl = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        return reconstruction, kl

    def features(self, bag: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, V) -> both hidden layers, and θ of the mean: (B, K) each."""
        first = functional.softplus(self.layers[0](bag.log1p()))
        second = functional.softplus(self.layers[1](first))
        return first, second, self.mean(second).softmax(1)


def pretrain(
    vae: BagOfWordsVAE,
    texts: Ragged,
    steps: int = 2_000,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> None:
    """Learn topics: Adam on β · KL - log p(bag | θ), averaged over the texts of a batch; β rises
    from 0 to 1 over the first half of the steps. The VAE is moved to the device and left in
    evaluation mode; the seed is that of the order of texts and of ε."""
    vae.to(device).train()
    read = Texts(texts, torch.zeros(len(texts), dtype=torch.int64)).to(device)
    optimizer = torch.optim.Adam(
        filter(lambda p: p.requires_grad, vae.parameters()), lr=learning_rate
    )
    generator = torch.Generator().manual_seed(seed)
    step = 0
    while step < steps:
        order = torch.randperm(len(texts), generator=generator)
        for indices in order.tensor_split(max(1, len(texts) // batch_size))[: steps - step]:
            bag = bags(read.batch(indices, PADDING_INDEX).ids, vae.words).to(vae.background)
            reconstruction, kl = vae.elbo(bag, generator)
            optimizer.zero_grad(set_to_none=True)
            # with the whole divergence from the start a posterior may never leave the prior
            beta = min(1.0, 2 * step / steps)
            loss = (beta * kl - reconstruction).mean()
            loss.backward()
            optimizer.step()
            step += 1
        check(loss.isfinite(), f"the VAE's loss is no longer a number after {step:,} steps")
    vae.eval()


class VampireClassifier(nn.Module):
    """A few labelled texts, classified by the layers of a pretrained VAE, which is frozen and may
    be shared.

    r = γ Σ_k λ_k LayerNorm(f_k), where f are the VAE's hidden layers and θ, whose units are small,
    and λ a softmax of learnt weights. Two linear layers, with dropout before each and a ReLU
    between, make it into logits. Gururangan et al. also join to r the mean of word embeddings,
    which would have to be learnt from the labelled texts.
    """

    def __init__(
        self, vae: BagOfWordsVAE, classes: int, hidden: int = 64, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.vae = vae.requires_grad_(False)
        self.mixing = nn.Parameter(torch.zeros(len(vae.layers) + 1))
        self.scale = nn.Parameter(torch.ones(()))  # γ
        into, out = nn.Linear(vae.topics, hidden), nn.Linear(hidden, classes)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), into, nn.ReLU(), nn.Dropout(dropout), out
        )

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """(B, T) int64 numbers of the VAE's vocabulary, padded, and (B,) lengths -> (B, C)
        logits."""
        with torch.no_grad():
            layers = torch.stack(
                self.vae.features(bags(ids, self.vae.words).to(self.vae.background))
            )
            layers = functional.layer_norm(layers, layers.shape[2:])  # (layers, B, K)
        weights = self.mixing.softmax(0).unsqueeze(1).unsqueeze(2)  # (layers, 1, 1)
        r = self.scale * (weights * layers).sum(0)  # (B, K)
        return self.classifier(r)


class BagVocabulary:
    """V frequent words, at most ``limit``, with a letter, in at least 3 of the texts and at most
    half of them. Word i, from frequent to rare, has the number i + 2, behind the unknown word and
    padding."""

    def __init__(self, texts: Sequence[str], limit: int = 5_000) -> None:
        tokens = [tokenize(text) for text in texts]
        counts = Counter(word for words in tokens for word in words)
        spread = Counter(word for words in tokens for word in {*words})
        telling = [word for word, held in spread.items() if 3 <= held <= len(texts) / 2]
        lettered = [word for word in telling if any(map(str.isalpha, word))]
        kept = sorted(lettered, key=lambda word: (-counts[word], word))[:limit]
        check(
            len(kept) >= 2,
            f"{len(texts):,} unlabelled texts are too few to learn topics: only {len(kept)} words"
            " occur in at least 3 and at most half of them; give more texts",
        )
        self.counts = torch.tensor([float(counts[word]) for word in kept])  # (V,), in these texts
        self.numbers = {word: number for number, word in enumerate(kept, FIRST)}

    def number(self, texts: Sequence[str]) -> Ragged:
        """The numbers of the known words of each text; a text without any is one unknown word."""
        rows = ([self.numbers[w] for w in tokenize(text) if w in self.numbers] for text in texts)
        return Ragged.of(row or [UNKNOWN_INDEX] for row in rows)


def bags(ids: Tensor, words: int) -> Tensor:
    """(B, T) numbers of a `BagVocabulary` of V ``words`` -> (B, V) float32, counts of the known
    ones."""
    counts = torch.zeros(len(ids), FIRST + words, device=ids.device)
    ones = torch.ones((), device=ids.device).expand(ids.shape)
    return counts.scatter_add_(1, ids, ones)[:, FIRST:]
