"""The page "Try it": the file of its models, and what a browser computes with it, beside torch."""

import json
import random
import re
from contextlib import contextmanager
from itertools import cycle, product

import pandas as pd
import pytest
import torch
from browsing import DESKTOP, PHONE, looked_at, on_every_screen
from clones import ROOT, sentences_of, source_of
from small_models import close
from small_runs import TEACHER, TINY

from paper.pages import export_try_it as script
from paper.pages import try_it
from paper.runs.kinds.training import Training, trained
from whenpool import TextClassifier, load_checkpoint, save_checkpoint
from whenpool.corpora.batches import PADDING_INDEX
from whenpool.corpora.tokens import tokenize
from whenpool.probes import gradient_norms
from whenpool.probes.word_importance import window_importance
from whenpool.settings import compose

SCRIPTS = ROOT / "book" / "_static" / "try_it"
slow = pytest.mark.slow
FILES = ("text", "model", "worker", "examples", "first", "weights", "filler_weights")
NAMES = ("last", "mean", "max", "attention", "max_attention", "chrono", "last untrained")
READ = """([variable, name, texts, padded]) => {
  const { Model, vocabulary, PADDING } = whenpoolTryIt.model();
  const shared = vocabulary(whenpoolTryIt[variable]);
  const model = new Model(whenpoolTryIt[variable], name, shared);
  return texts.map((words, place) => {
    const known = words.map(shared.numberOf);
    const ids = padded ? [...known, ...known.map(() => PADDING)] : known;
    const { logits, weights } = model.read(ids);
    const windows = place < 3 ? [...model.importance(ids, words.length, 1)] : [];
    const norms = [...model.gradientNorms(ids, 1)];
    return { ids, logits, windows, norms, weights: weights && [...weights] };
  });
}"""


def read_file(file):
    return json.loads(file.read_text("utf-8").partition(" = ")[2].rstrip(";\n"))


@pytest.fixture(scope="module")
def exported(shared):
    runs = {"last": TINY, "max": TEACHER}
    for run in runs.values():
        run.execute(shared, keep_weights=True)
    file = shared.cache / "weights.js"
    script.export(runs, shared, file, words=40, say=lambda _: None)
    return runs, read_file(file)


@pytest.fixture(scope="module")
def contents():
    """By setting of the training texts."""
    return {setting: read_file(SCRIPTS / file) for setting, (file, _) in try_it.FILES.items()}


@pytest.mark.parametrize("name", ["last", "max"])
def test_an_exported_model_is_the_stored_one_but_for_its_steps(exported, shared, name):
    runs, content = exported
    prepared = trained(runs[name], shared)
    ours, theirs = try_it.read_model(content, name), prepared.model.eval()
    assert content["words"].split(" ") == prepared.dataset.vocabulary[:40]
    batch = prepared.dataset.test.batch(torch.arange(20), PADDING_INDEX)
    ids = batch.ids.masked_fill(batch.ids >= 40, 0)
    assert torch.allclose(ours(ids, batch.lengths), theirs(ids, batch.lengths), atol=0.05)
    written = content["models"][name]
    assert written["accuracy"] == shared.store.get(written["key"])["result"]["test_accuracy"]
    assert written["here"] == script.accuracy(ours, prepared.dataset.test)


@pytest.mark.parametrize("setting", try_it.FILES)
def test_the_page_has_the_models_of_reference_runs(contents, setting):
    file = ROOT / "data" / "results" / "trainings.csv"
    recorded = pd.read_csv(file, low_memory=False).set_index("key")
    models, tolerance = contents[setting]["models"], 0.01 if setting == "standard" else 5
    for name, run in script.chosen_runs(setting).items():
        row = recorded.loc[models[name]["key"]]
        # a processor of another kind gives other bits, which grow in training
        assert abs(models[name]["accuracy"] - row["test_accuracy"]) < tolerance
        assert abs(models[name]["here"] - models[name]["accuracy"]) < 5
        assert Training.of_row(row.to_dict()) == run
    assert (SCRIPTS / try_it.FILES[setting][0]).stat().st_size < 2e6


def test_what_shows_before_a_model_is_loaded_is_what_the_models_say(contents):
    shown, computed = read_file(SCRIPTS / "first.js"), script.first_answers()
    answers = {
        name: pytest.approx(answer, abs=0.002) for name, answer in computed["answers"].items()
    }
    windows = pytest.approx(computed["windows"], abs=0.002)
    assert shown == computed | {"answers": answers, "windows": windows}


def test_the_page_opens_where_most_importance_lies_on_the_opinion():
    page, opening = try_it.on_page("mid"), read_file(SCRIPTS / "first.js")
    source = sentences_of("try_it")
    for title, opinion in page.opinions.items():
        assert opinion <= set(page.reviews[title][0]) & set(page.numbers)
        assert opinion.isdisjoint(word for sentence in page.filler for word in sentence)
    pairs = product(page.reviews, script.POOLINGS[1:])
    shares = {pair: script.on_opinion(page, *pair) for pair in pairs}
    least, most = min(shares, key=shares.get), max(shares, key=shares.get)
    assert most == (opening["title"], opening["pooling"])
    assert least == ("Irony", "mean")
    assert (
        f"largest share, {100 * shares[most]:.0f} %. The smallest is {100 * shares[least]:.0f} %"
        in source
    )


def test_in_filler_the_bilstm_says_the_same_of_every_review_and_others_read_it():
    page, said = try_it.on_page("mid"), {}
    for title, (words, label) in page.reviews.items():
        ids = page.ids(compose(words, cycle(page.filler), "mid", script.PERCENT / 100))
        for name, model in page.models.items():
            positive = model(ids, torch.tensor([ids.shape[1]])).softmax(1)[0, 1].item()
            said.setdefault(name, []).append((title, label, positive))
    assert all(0.445 < positive < 0.515 for *_, positive in said["last"])  # as the page says
    for name in ("attention", "max_attention", "chrono"):
        opinions = [
            (label, positive) for title, label, positive in said[name] if "opinion" in title
        ]
        assert [abs(label - positive) < 0.25 for label, positive in opinions] == [True] * 3


@pytest.fixture(scope="module")
def scripts(chromium, tmp_path_factory):
    """A page with the scripts that compute, and nothing to see."""
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(
        "".join(f'<script src="{(SCRIPTS / name).as_uri()}.js"></script>' for name in FILES)
    )
    with looked_at(chromium, file) as page:
        yield page


@slow
@pytest.mark.parametrize(
    "setting, name, padded",
    [
        *product(["standard"], NAMES, [False]),
        ("standard", "last", True),
        ("mid", "max_attention", True),
    ],
)
def test_the_browser_computes_what_torch_does(scripts, contents, setting, name, padded):
    content, variable = contents[setting], try_it.FILES[setting][1]
    model, rng = try_it.read_model(content, name).double(), random.Random(0)
    words = content["words"].split(" ")[2:]
    texts = [[*rng.choices(words, k=rng.randint(5, 60)), "zzzz", "good", "."] for _ in range(20)]
    label = torch.tensor([1])
    for text, answer in zip(
        texts, scripts.evaluate(READ, [variable, name, texts, padded]), strict=True
    ):
        ids, lengths = torch.tensor([answer["ids"]]), torch.tensor([len(answer["ids"])])
        same(answer["logits"], model(ids, lengths)[0], atol=1e-3)
        weights = model.pool(model.encode(model.embed(ids), lengths), lengths)[1]
        assert (weights is None) == (answer["weights"] is None)
        if weights is not None:
            same(answer["weights"], weights[0], atol=1e-4)
        same(answer["norms"], gradient_norms(model, ids, lengths, label)[0], rtol=1e-2)
        if answer["windows"]:
            expected = window_importance(model, ids, lengths, label)[0]
            same(answer["windows"], expected[: len(text) // 5], rtol=1e-2, atol=1e-6)


def same(values, expected, **tolerance):
    close(torch.tensor(values).double(), expected.detach(), **tolerance)


@slow
def test_the_browser_cuts_texts_and_adds_filler_as_the_library_does(scripts):
    odd = ['It\'s <br />GREAT; really: (not) "bad"!? a.b,c', "", "  tab\there\u00a0and\u2003there "]
    odd.append("İstanbul\x1cÉtat")
    found = scripts.evaluate("texts => texts.map(whenpoolTryIt.text().tokenize)", odd)
    assert found == [tokenize(text) for text in odd]
    sentences = [[f"{row}-{place}" for place in range(3 + row)] for row in range(7)]
    compose_all = """([words, filler, cases]) => cases.map(([setting, share]) =>
        whenpoolTryIt.text().compose(words, filler, setting, share).words)"""
    cases = list(product(("left", "mid", "right"), (0, 0.05, 0.25, 0.5, 0.6, 0.9)))
    words = list("abcdefghij")
    found = scripts.evaluate(compose_all, [words, sentences, cases])
    assert found == [compose(words, cycle(sentences), *case) for case in cases]


@contextmanager
def shown(chromium, folder, size=DESKTOP, scheme="light", axe=False):
    """The part of a page that is HTML, with its models loaded."""
    (part,) = re.findall(r"```{raw} html\n(.*?)\n```", source_of("try_it"), re.DOTALL)
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Try it</title>'
    head += '<meta name="viewport" content="width=device-width">'
    file = folder / "widget.html"
    file.write_text(
        f"{head}<main>{part}</main></html>".replace("../_static", SCRIPTS.parent.as_uri())
    )
    with looked_at(chromium, file, size, scheme, axe=axe) as page:
        answered(page)
        yield page


def reads(page, place, words):
    """Wait until a place of the page has some words."""
    page.locator(place, has_text=words).wait_for()


def answered(page):
    reads(page, ".try-state", " words")


def chosen(page, **values):
    """Choose by the names of the controls, and wait for what five models say."""
    page.evaluate("document.querySelector('.try-it details').open = true")
    page.evaluate("document.querySelector('.try-state').textContent = ''")
    for name, value in values.items():
        field = page.locator(f"[name={name}]")
        field.fill(str(value)) if name in ("share", "review") else field.select_option(value)
    answered(page)


@slow
@on_every_screen
def test_the_widget_can_be_used_by_keyboard_and_on_a_phone(chromium, tmp_path, size, scheme):
    with shown(chromium, tmp_path, size, scheme, axe=True) as page:
        box = """w => [w.scrollTop, Math.min(
            w.querySelector(".review").offsetTop - 4, w.scrollHeight - w.clientHeight)]"""
        seen, opinion = page.locator(".try-words").evaluate(box)
        assert abs(seen - opinion) < 2  # the words show the opinion, not the filler before it
        top, bottom = (page.locator(part).bounding_box() for part in (".try-it", ".try-words"))
        height = bottom["y"] + bottom["height"] - top["y"]
        assert height < PHONE[1] - 60  # all on one screen, less the bar of the page
        chosen(page, share=50)
        page.locator("input[value=last]").focus()
        page.keyboard.press("ArrowDown")
        reads(page, ".try-norms", "MeanPool")
        review = page.get_by_label("Words of the review").input_value()
        assert page.locator(".try-words span").count() == 2 * len(tokenize(review))


@slow
def test_the_opening_shades_the_opinion_and_never_prints_what_is_not_there(chromium, tmp_path):
    with shown(chromium, tmp_path) as page:
        shaded = """spans => spans.filter(one => one.style.getPropertyValue("--a") > 0.5)
            .map(one => one.textContent)"""
        opinion = ["stupid", "script", ",", "terrible", "acting"]
        assert page.locator(".try-words span").evaluate_all(shaded) == opinion
        for share in (60, 0):  # it is computed anew
            chosen(page, share=share)
            assert not re.search("∞|Infinity|NaN", page.locator(".try-it").inner_text())
            reads(page, ".try-none", "strongest shade")
        answers = page.locator("tbody td:nth-child(2)").all_inner_texts()
        assert all(re.fullmatch(r"\d+ % positive(: a guess)?", answer) for answer in answers)
        chosen(page, review="good")  # one word has no window of five
        assert page.locator(".try-none").inner_text() == ""


@slow
def test_a_word_tells_its_numbers_by_keys_and_by_touch(chromium, tmp_path):
    with shown(chromium, tmp_path, PHONE) as page:
        reads(page, ".try-none", "strongest shade")
        reads(page, ".try-norms", "Gradient norm")
        line, numbers = page.locator(".try-word"), " · gradient norm .+ · importance .+"
        page.locator(".try-words").focus()
        assert re.fullmatch("the" + numbers, line.inner_text())
        page.keyboard.press("ArrowRight")
        assert re.fullmatch("film" + numbers, line.inner_text())
        page.locator(".try-words span", has_text="stupid").dispatch_event("click")
        assert re.fullmatch("stupid" + numbers, line.inner_text())
        assert page.locator(".try-words span.at").all_inner_texts() == ["stupid"]


@slow
def test_hiding_the_opinion_says_how_far_it_has_read(chromium, tmp_path):
    with shown(chromium, tmp_path) as page:
        button = page.get_by_role("button", name="Hide the opinion")
        page.evaluate("""() => {
            const button = document.querySelector(".try-hide");
            window.said = [];
            new MutationObserver(() => said.push(button.textContent))
                .observe(button, { childList: true });
        }""")
        button.click()
        reads(page, ".try-state", "changes its mind")
        said = page.evaluate("said")
        assert said[0] == "Reading 5 % …"
        assert said[-1] == "Hide the opinion"
        assert button.is_enabled()
        page.evaluate("document.querySelector('.try-it details').open = true")
        page.locator("[name=review]").fill("")
        button.click()
        reads(page, ".try-state", "Type some words")
        assert button.is_enabled()


@slow
def test_a_reader_brings_a_model_lays_two_over_each_other_and_sends_the_address(chromium, tmp_path):
    torch.manual_seed(3)
    words = ["<unk>", "<pad>", "a", "boring", "film", "the", "of", "music", "was"]
    model = TextClassifier(len(words), 3, "max_attention", embedding_size=6, hidden_size=8)
    classes, review = ["bad", "fair", "good"], "a boring film of the music"
    mine = save_checkpoint(tmp_path / "mine", model, words, classes, test_accuracy=61.25)
    facts = mine / "model.json"
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"\x02" + bytes(7) + b"{}")
    with shown(chromium, tmp_path) as page:
        bring = page.locator("[name=own]").set_input_files
        page.locator(".try-it summary").click()
        bring(facts)
        reads(page, ".try-state", "Bring two files")
        bring([*mine.iterdir()])
        row = page.locator("tbody tr", has_text="Yours, MaxAtt")
        row.wait_for()
        chosen(page, share=0, review=review)
        share, most = load_checkpoint(mine).probabilities([review])[0].max(0)
        assert f"{round(100 * float(share))} % {classes[most]}" in row.inner_text()
        assert "61.3 %" in row.inner_text()
        bring([facts, broken])
        reads(page, ".try-state", "cannot be used")
        # the model that was there stays, and is there for other models, too
        chosen(page, texts="plain")
        reads(row, "small", classes[most])
        page.locator("[name=over]").select_option("max_attention")
        page.locator("polyline.try-over[points*=',']").wait_for(state="attached")
        chosen(page, share=35, setting="left")
        address = page.url
        page.goto("about:blank")
        page.goto(address)
        answered(page)
        fields = {"share": "35", "setting": "left", "over": "max_attention"}
        for name, value in {**fields, "review": review}.items():
            assert page.locator(f"[name={name}]").input_value() == value
        facts.write_text(facts.read_text().replace('"lstm"', '"gru"'))
        bring([*mine.iterdir()])
        reads(page, ".try-state", "used: this page runs bidirectional LSTMs")
