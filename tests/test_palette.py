"""Colours that tell models apart for every eye, by a published model of colour blindness."""

from itertools import combinations

import numpy as np
import pytest
from colorspacious import cspace_convert, deltaE
from matplotlib.colors import to_rgb

from whenpool.book.report.figures import TRICK_COLOURS
from whenpool.models.pooling import POOLINGS
from whenpool.models.registry import COLOURS, MARKERS, SPARE_COLOURS

TOLD_APART = 10.0
"""In CAM02-UCS, where 1 is about what can just be seen side by side."""


def seen(colour, blindness):
    """A colour as somebody with a total blindness to one kind of light sees it (Machado 2009)."""
    if not blindness:
        return np.array(to_rgb(colour))
    space = {"name": "sRGB1+CVD", "cvd_type": blindness, "severity": 100}
    return np.clip(cspace_convert(to_rgb(colour), space, "sRGB1"), 0, 1)


@pytest.mark.parametrize("blindness", [None, "deuteranomaly", "protanomaly", "tritanomaly"])
def test_every_two_models_of_a_figure_can_be_told_apart(blindness):
    spare = {colour: colour for colour in SPARE_COLOURS if colour not in COLOURS.values()}
    shown = COLOURS | TRICK_COLOURS | spare
    models = {name: seen(colour, blindness) for name, colour in shown.items()}
    pairs = set(combinations(models, 2)) - {("last_attention", "penalty_attention")}  # which it trains
    for one, other in pairs:
        assert deltaE(models[one], models[other], input_space="sRGB1") > TOLD_APART, (one, other)


def test_each_pooling_has_a_colour_and_a_marker_of_its_own():
    for looks in (COLOURS, MARKERS):
        assert len({looks[name] for name in POOLINGS}) == len(POOLINGS)
