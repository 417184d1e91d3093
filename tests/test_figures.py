"""Figures: their layout for phones, their colours on dark pages, and that poolings look different."""

import re

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import seaborn as sns

from whenpool.book.figures import drawn_twice, parted
from whenpool.book.pages import with_dark_colours


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def size_of(svg):
    return [float(x) for x in re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups()[::-1]]


def four_panels():
    places = [(column, x, x) for column in range(4) for x in range(3)]
    frame = pd.DataFrame(places, columns=["column", "x", "y"]).assign(kind="one")
    return sns.relplot(frame, x="x", y="y", col="column", hue="kind", kind="line", height=2).figure


def test_a_drawing_carries_its_narrow_layout_which_is_narrower_and_has_the_same_words():
    wide, narrow = parted(drawn_twice(four_panels()))
    assert size_of(wide)[1] > 500 > 280 > size_of(narrow)[1] > 240
    assert size_of(narrow)[0] > size_of(wide)[0]
    for svg in (wide, narrow):
        assert svg.index("</svg>") == len(svg.rstrip()) - len("</svg>")
        assert "<!-- column = 3 -->" in svg
        assert "<!-- one -->" in svg


def test_on_a_dark_page_light_and_dark_change_places_and_colours_stay():
    svg = '<svg><rect style="fill: #ffffff"/><path style="stroke: #262626"/><path fill="#e8a612"/></svg>'
    dark = with_dark_colours(svg)
    assert "--ffffff:#000000;" in dark
    assert "--262626:#d9d9d9;" in dark
    assert '<path fill="#e8a612"/>' in dark
