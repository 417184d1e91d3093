"""The elements of a page, which must close its tags in order."""

import re
from xml.etree import ElementTree


def outline(page):
    """The tags of a page with their attributes, and its text."""
    root = ElementTree.fromstring(re.sub(r"<(?:!doctype|meta|br)\b[^>]*>", "", page))
    return [(one.tag.rpartition("}")[2], one.attrib) for one in root.iter()], "".join(root.itertext())
