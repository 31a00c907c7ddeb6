"""The words of reports: linked once, and every text escaped."""

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from gramwatt.reports.glossary import TERMS, linker, used


def test_a_word_is_linked_where_it_is_first_used_and_only_there():
    linked = linker("#word-")
    first = linked("SCI of <b>embodied carbon</b>, by PUE.")
    assert first == (
        '<a class="term" href="#word-sci">SCI</a> of &lt;b&gt;'
        '<a class="term" href="#word-embodied">embodied carbon</a>&lt;/b&gt;, by '
        '<a class="term" href="#word-pue">PUE</a>.'
    )
    assert linked("The SCI, with PUE") == "The SCI, with PUE"
    assert linked("SCIENCE, not-sci, non-SCI") == "SCIENCE, not-sci, non-SCI"


def test_the_words_that_a_report_needs_are_explained():
    needed = {
        *("sci", "energy", "intensity", "embodied", "functional-unit", "pue", "location-based"),
        *("market-based", "provisional", "range", "measured", "derived", "estimated"),
    }
    assert needed <= {term.key for term in TERMS}
    names = [term.name for term in used("Energy (E) is provisional, from a market-based range")]
    assert names == ["E, energy", "Market-based", "Provisional", "Range"]


@given(st.lists(st.one_of(st.text(), st.sampled_from(["PUE", "SCI & PUE", "<range>", "R = 3"]))))
def test_texts_are_escaped_whole_whatever_they_hold(texts):
    linked = linker("#word-")
    for text in texts:
        assert linked(text).striptags().strip() == escape(text).striptags().strip()
        assert linked(text) == escape(text)  # every word was linked the first time


def test_a_users_word_is_neither_linked_nor_explained():
    names = ("SCI", "measured PUE", "node (range)", " ")
    linked = linker("#word-", names)
    assert (
        linked("SCI per measured PUE, of node (range)") == "SCI per measured PUE, of node (range)"
    )
    assert linked("a PUE") == 'a <a class="term" href="#word-pue">PUE</a>'
    assert [term.key for term in used("SCI of node (range), provisional", names)] == ["provisional"]
