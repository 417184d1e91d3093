"""In which part of the texts the words stand that decide, by the word importance of several models."""

from collections.abc import Sequence

from whenpool.book.report.wording import together

CLEARLY = 1.25
"""How many times as much as the next a third of a text must matter to be called the place where the
evidence stands; where the most important one matters less than so many times the least, it stands
everywhere."""


def evidence_place(results: Sequence[dict[str, float]]) -> str:
    """The place of the evidence, as `whenpool.book.report.advice` names it, if all models agree.

    Args:
        results: mean importance in the "left", "middle" and "right" third of the texts, of each model.
    """
    names = {"left": "start", "middle": "middle", "right": "end"}
    found = set()
    for result in results:
        thirds = {name: result[name] for name in names}
        largest = max(thirds, key=lambda name: thirds[name])
        second = sorted(thirds.values())[1]
        if thirds[largest] > CLEARLY * second:
            found.add(names[largest])
        elif thirds[largest] <= CLEARLY * min(thirds.values()):
            found.add("everywhere")
        else:
            found.add("unknown")
    return found.pop() if len(found) == 1 else "unknown"


def evidence_sentence(where: str, judges: Sequence[str], cut: bool) -> str:
    """What is said of the place.

    Args:
        where: by `evidence_place`.
        judges: names of the models that it was read from.
        cut: whether some texts are longer than what is read of them.
    """
    texts = "the words that are read" if cut else "the texts"
    if not judges:
        return (
            "Where the deciding words stand is read from models with a pooling that have learnt; "
            "there is none here."
        )
    by = f"{together(judges)}, the one model with a pooling that has learnt,"
    if where == "unknown":
        if len(judges) == 1:
            return f"{by} singles out no part of {texts}."
        return f"{together(judges)} do not all single out the same part of {texts}."
    if where == "everywhere":
        what = f"all parts of {texts} matter about alike"
    else:
        what = f"words {'in' if where == 'middle' else 'at'} the {where} of {texts} matter most"
    if len(judges) == 1:
        return f"To {by} {what}."
    return f"The models with a pooling that have learnt ({together(judges)}) agree: {what}."
