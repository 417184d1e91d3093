"""The poolings and cells by name, and what tables and figures call them; needs no torch.

A line here is all that a new class in `whenpool.models.pooling` takes to be trained, probed and
drawn in every chapter that compares poolings.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Listed:
    """What the book needs to know of a pooling."""

    module: str  # its class in `whenpool.models.pooling`
    title: str  # how tables and figures call a BiLSTM with it
    colour: str = "#0000d2"  # in every figure, as the marker
    marker: str = "X"
    compared: bool = True  # whether chapters that compare poolings train it


LISTED: dict[str, Listed] = {
    "last": Listed("LastState", "BiLSTM", "#000000", "s"),
    "mean": Listed("MeanPool", "MeanPool", "#e69f00", "^"),
    "max": Listed("MaxPool", "MaxPool", "#009e73", "v"),
    "attention": Listed("Attention", "Att", "#56b4e9", "D"),
    "max_attention": Listed("MaxAttention", "MaxAtt", "#d55e00", "o"),
    # §2.2.5 alone
    "last_attention": Listed("LastAttention", "LastAtt", "#cc79a7", "P", compared=False),
}
"""Every pooling by the name that options and runs call it. The titles are the thesis's, the colours
the palette of Okabe and Ito (2008), safe for the colour-blind."""

POOLING_NAMES = {name: listed.title for name, listed in LISTED.items()}
"""How the thesis calls a BiLSTM with each pooling."""
COMPARED = tuple(name for name, listed in LISTED.items() if listed.compared)
"""The poolings that chapters compare: the thesis's five, and those that were added."""
THESIS_POOLINGS = ("last", "mean", "max", "attention", "max_attention")  # Of Tables 1.2 to 1.8

COLOURS = {name: listed.colour for name, listed in LISTED.items()}
MARKERS = {name: listed.marker for name, listed in LISTED.items()}


@dataclass(frozen=True)
class ListedCell:
    """What runs and the book need to know of a cell."""

    title: str  # how tables and figures call it
    colour: str  # in figures that compare cells
    marker: str
    forgets: bool = False  # whether forget_bias can set how much of its state it keeps
    coupled: bool = False  # whether the gate that keeps is also the one that writes
    remembers: bool = False  # whether it has recurrent weights
    adds: bool = False  # whether it adds words to the state, so that both need as many units
    recurrent: bool = True  # whether it reads one word after another


LISTED_CELLS: dict[str, ListedCell] = {
    "lstm": ListedCell("LSTM", "#000000", "s", forgets=True, remembers=True),
    "gru": ListedCell("GRU", "#332288", "o", forgets=True, coupled=True, remembers=True),
    "elman": ListedCell("Elman", "#b03a8c", "^", remembers=True),
    "prototype": ListedCell("prototype LSTM", "#4d7c0f", "D", forgets=True, remembers=True),
    "sum": ListedCell("sum", "#5d6d7e", "P", adds=True),
    "tanh_sum": ListedCell("tanh of the sum", "#882255", "X", adds=True),
    "mingru": ListedCell("minGRU", "#8a8a00", "v", forgets=True, coupled=True),
    "minlstm": ListedCell("minLSTM", "#6b4c3b", "<"),
    "ssm": ListedCell("SSM", "#c2410c", ">"),
    "lru": ListedCell("LRU", "#0f766e", "p"),
    "transformer": ListedCell("Transformer", "#4a7fd6", "h", recurrent=False),
}
"""Every cell by the name that options and runs call it."""
