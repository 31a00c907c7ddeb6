"""Notice codes against the source: none is registered in vain, none is emitted unregistered."""

import ast
import re

from gramwatt.sci.figures.notices import CODES
from tests.packages import ROOT, sources, tree

REGISTER = ROOT / "sci" / "figures" / "notices.py"
EMITTERS = {"Notice", "notify", "_notify", "note", "send_notice"}
"""Calls whose first argument is a code."""


def text_of(node):
    """A constant text, or how an f-string begins; empty for anything else."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def emitted(module):
    """Codes that a file hands on with a sentence: in a call, in a pair, or as "code: sentence"."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in EMITTERS:
                yield from map(text_of, ast.walk(node.args[0]))
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and " " in text_of(node.elts[1]):
            yield text_of(node.elts[0])
        elif code := re.match(r"([a-z]+(?:-[a-z]+)+): \S", text_of(node) + "x"):
            yield code[1]


def test_what_is_emitted_is_registered_and_nothing_else():
    found = {code for path in sources() if path != REGISTER for code in emitted(tree(path))}
    assert {code for code in found if re.fullmatch(r"[a-z]+(-[a-z]+)+", code)} == set(CODES)


def test_the_source_is_read_as_it_should_be():
    text = "Notice('a-b' if c else 'm-n', 'x'); f(x['c-d'], 'e-f'); y == 'g-h'"
    text += "; z = ('i-j', 'two words'); w = 'k-l: m'"
    assert set(emitted(ast.parse(text))) >= {"a-b", "i-j", "k-l", "m-n"}
    assert not set(emitted(ast.parse(text))) & {"c-d", "e-f", "g-h"}
