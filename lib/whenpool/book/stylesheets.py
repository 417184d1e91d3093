"""Stylesheets without what no page can use: rules, animations, variables."""

import re
from collections.abc import Collection, Iterator, Mapping

_NAME = re.compile(r"[.#]((?:[\w-]|\\.)+)")
_VARIABLE = re.compile(r"(?<=[{;])--([\w-]+):(?:\"[^\"]*\"|\([^()]*\)|[^;{}\"()])*(?:;|(?=}))")
_WITHOUT = re.compile(r":(?:not|is|where|has)\([^()]*(?:\([^()]*\)[^()]*)*\)")


def pruned(sheets: Mapping[str, str], known: Collection[str], others: str) -> dict[str, str]:
    """Stylesheets that look the same on all pages and are shorter.

    Args:
        sheets: each by a name.
        known: the classes and ids of the pages, and every word of the scripts that may set some.
        others: scripts and pages, which may read variables of the stylesheets.
    """
    import tinycss2

    found = {}
    for name, sheet in sheets.items():
        rules = tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True)
        found[name] = "".join(_used(rules, known))
    together = "".join(found.values())
    for animation in set(re.findall(r"@keyframes ([\w-]+)", together)):
        if not re.search(rf"animation[\w-]*:[^;}}]*\b{animation}\b", together):
            frames = re.compile(rf"@keyframes {animation}{{(?:[^{{}}]*{{[^{{}}]*}})*[^{{}}]*}}")
            found = {name: frames.sub("", sheet) for name, sheet in found.items()}
    read_elsewhere = set(re.findall(r"--([\w-]+)", others))
    while True:  # a variable may be read by one that nothing reads
        read = read_elsewhere | set(re.findall(r"var\(\s*--([\w-]+)", "".join(found.values())))
        shorter = {name: _with_variables(sheet, read) for name, sheet in found.items()}
        if shorter == found:
            return found
        found = shorter


def _with_variables(sheet: str, read: Collection[str]) -> str:
    return _VARIABLE.sub(lambda match: match[0] if match[1] in read else "", sheet)


def _used(rules: list, known: Collection[str]) -> Iterator[str]:
    import tinycss2

    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = _selectors(tinycss2.serialize(rule.prelude))
            used = [selector for selector in selectors if _can_match(selector, known)]
            if used:
                yield f"{','.join(used)}{{{tinycss2.serialize(rule.content).strip()}}}"
        elif rule.type == "at-rule" and rule.content and rule.lower_at_keyword in ("media", "supports"):
            inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
            if kept := "".join(_used(inner, known)):
                yield f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{kept}}}"
        elif rule.type != "error":
            yield rule.serialize()


def _selectors(prelude: str) -> list[str]:
    """The selectors of a rule, cut at commas outside of brackets."""
    parts, depth = [""], 0
    for letter in prelude.strip():
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _can_match(selector: str, known: Collection[str]) -> bool:
    return all(name.replace("\\", "") in known for name in _NAME.findall(_WITHOUT.sub("", selector)))
