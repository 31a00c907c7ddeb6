"""The two renderers: complete, inert towards hostile texts, and the same every time."""

import json
import re
import unicodedata
from functools import cache
from html.parser import HTMLParser
from io import BytesIO

import msgspec
import pytest
import typst
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader

from gramwatt.reports import html, job, month, pdf
from gramwatt.reports.model import MARK_LEGEND, Chart, Column, Document, Heading, Pair, Table, Text
from gramwatt.reports.printable import cleaned
from gramwatt.sci.figures.printable import clean, isolated
from tests.documents import (
    HOSTILE,
    changed,
    full_month,
    hostile_job,
    month_of,
    steady_job,
    unread_job,
    varied_job,
    world_job,
)

DOCUMENTS = {
    "job": lambda: job.build(varied_job(), full=True),
    "short job": lambda: job.build(varied_job()),
    "job without zone": lambda: job.build(world_job()),
    "unknown job": lambda: job.build(unread_job(zone="DE")),
    "month": lambda: month.build(full_month()),
    "empty month": lambda: month.build(month_of([])),
    "odd": lambda: month.build(odd_month()),
}
ELEMENTS = set(
    re.findall(
        r"\w+",
        "html head meta title style body div nav ol li a main header h1 h2 h3 h4 p ul dl dt dd "
        "span small bdi table caption thead tbody tr th td section figure figcaption details "
        "summary aside strong footer svg g path text rect line circle defs clippath pattern",
    )
)
PRINTED = ("job", "month", "odd")
"""What is rendered as PDF, once for every test that looks at one."""
WIDE = "w" * 400
NO_FONT = "\U0001f469\u200d\U0001f467 \U000110d0"
SCRIPTS = "大規模言語モデル 학습 🚀"
LONG_ROWS = 2400


def odd_month():
    """A month with names, projects, owners and models of every kind, and a count of any size."""
    texts = (*HOSTILE, WIDE, NO_FONT, SCRIPTS)
    jobs = [changed(hostile_job(text), job_id=f"j{n}") for n, text in enumerate(texts)]
    made = month_of(
        [changed(job, tags={"user": text}) for job, text in zip(jobs, texts, strict=True)]
    )
    first, *others = made.projects
    first.count, first.total_g = 9e29, first.total_g.scaled(234e3 / first.total_g.value)
    top = [{**msgspec.to_builtins(job), "owner": None} for job in jobs]
    return changed(made, top_jobs=top, projects=[first, *others])


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of the page."""

    def __init__(self, page):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def named(self, tag):
        return [attrs for name, attrs in self.found if name == tag]


@cache
def document(name):
    return DOCUMENTS[name]()


@cache
def page_of(name):
    return html.render(document(name))


@cache
def pdf_of(name):
    return pdf.render(document(name))


def pdf_text(data):
    return "\n".join(page.extract_text() for page in PdfReader(BytesIO(data)).pages)


def dense(text):
    """A text without any space, as ligatures spell it out."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_page_has_every_heading_and_makes_no_request(name):
    page = page_of(name)
    for block in document(name).blocks:
        if isinstance(block, Heading):
            assert f">{block.text}</h{block.level + 1}>" in page
    elements = Elements(page)
    assert {tag for tag, _ in elements.found} <= ELEMENTS
    assert len(elements.named("h1")) == 1
    asked = {"src", "href", "xlink:href", "action", "data", "poster", "srcset"}
    links = [v for _, attrs in elements.found for k, v in attrs.items() if k in asked]
    assert all(link.startswith("#") for link in links)
    assert re.findall(r"url\((?!#)", page) == []
    assert not [k for _, attrs in elements.found for k in attrs if k.startswith("on")]
    policy = next(
        m["content"] for m in elements.named("meta") if "content" in m and "src" in str(m)
    )
    assert policy.startswith("default-src 'none'; ")
    assert "script-src" not in policy


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_page_can_be_read_without_seeing_it(name):
    elements = Elements(page_of(name))
    assert elements.named("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    assert {attrs.get("scope") for attrs in elements.named("th")} <= {"col", "row"}
    assert len(elements.named("table")) == len(elements.named("caption"))
    anchors = [attrs["id"] for attrs in elements.named("h2") + elements.named("h3")]
    assert len(anchors) == len(set(anchors))
    ids = [attrs["id"] for _, attrs in elements.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {link["href"][1:] for link in elements.named("a")} <= set(ids)
    charts = [block for block in document(name).blocks if isinstance(block, Chart)]
    pictures = [attrs for _, attrs in elements.found if attrs.get("role") == "img"]
    assert [picture["aria-label"] for picture in pictures] == [chart.alt for chart in charts]
    assert page_of(name).count("Data behind this chart") == len(charts)


@pytest.mark.parametrize("name", PRINTED)
def test_the_pdf_is_tagged_titled_and_complete(name):
    made = document(name)
    reader = PdfReader(BytesIO(pdf_of(name)))
    root = reader.trailer["/Root"]
    assert reader.metadata.title == made.title
    assert reader.metadata.author == "gramwatt"
    assert root["/MarkInfo"]["/Marked"]
    assert root["/Lang"] == "en"
    assert b"pdfuaid:part" in root["/Metadata"].get_data()
    dated = reader.metadata.creation_date
    assert (dated.strftime("%Y-%m-%d") if dated else "") == made.date
    text = pdf_text(pdf_of(name))
    assert f"{len(reader.pages)} of {len(reader.pages)}" in text
    assert dense(text).count(dense(made.reference)) >= len(reader.pages)
    for block in made.blocks:
        if isinstance(block, Heading):
            assert dense(block.text) in dense(text)


@pytest.mark.parametrize("name", ["job", "month"])
def test_page_and_print_have_the_same_cells_marks_and_words(name):
    """Every cell of every table is on the page and in print, a mark before each estimate."""
    page, printed = dense(Elements(page_of(name)).text), dense(pdf_text(pdf_of(name)))
    tables = [block for block in document(name).blocks if isinstance(block, Table)]
    cells = {cell for table in tables for row in table.rows for cell in row}
    for cell in cells:
        for text in (cell.text, cell.below) if isinstance(cell, Pair) else (cell,):
            assert dense(text) in page
            assert dense(text) in printed
    estimates = [cell for cell in cells if isinstance(cell, Pair) and cell.estimated]
    assert len(estimates) >= 2
    assert all(f"≈{dense(cell.text)}" in printed for cell in estimates)
    assert dense(MARK_LEGEND) in page
    assert "≈estimated" in printed
    assert (dense("Words used here") in page, dense("Words used here") in printed) == (
        (True, name == "job")
    )
    # The mark stays with its figure, also in the narrowest column.
    assert "≈" not in [line.strip() for line in pdf_text(pdf_of("odd")).splitlines()]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_stay_texts(text):
    made = job.build(hostile_job(text), full=True)
    elements = Elements(html.render(made))
    assert {tag for tag, _ in elements.found} <= ELEMENTS
    assert not [k for _, attrs in elements.found for k in attrs if k.startswith("on")]
    assert dense(clean(text)) in dense(elements.text)


def test_odd_names_stay_texts_in_a_month():
    elements = Elements(page_of("odd"))
    assert {tag for tag, _ in elements.found} <= ELEMENTS
    assert not [k for _, attrs in elements.found for k in attrs if k.startswith("on")]
    printed = dense(pdf_text(pdf_of("odd")))
    for text in (*HOSTILE, WIDE, SCRIPTS):
        assert dense(clean(text)) in dense(elements.text)
        if all(character.isascii() for character in text):
            assert dense(clean(text)) in printed
    assert dense(SCRIPTS) in printed


def test_what_is_wide_or_has_no_font_stays_in_its_place_in_print():
    """A run of 400 letters stays on the page, and is copied as it was; a huge count is short."""
    printed = pdf_text(pdf_of("odd"))
    assert dense(WIDE) in dense(printed)
    # A4 less its margins is 476 points, and in the smallest letters (7.4 points) a w is above 5.
    assert max(len(line) for line in printed.splitlines() if "www" in line) < 476 / 5
    assert "9e+29" in printed
    assert "900\u202f000\u202f000" not in printed
    assert "could not be printed, and stand" in " ".join(printed.split())  # NO_FONT


def test_names_from_right_to_left_do_not_move_the_figures_beside_them():
    """Each is isolated in a sentence, as an element on the page and by marks in print."""
    name, project = "\u05e9\u05dc\u05d5\u05dd 7", "\u062a\u062f\u0631\u064a\u0628"
    assert isolated("plain 7") == "plain 7"
    made = month.build(month_of([steady_job(name=name, project=project)]))
    page = html.render(made).replace("\u202f", " ")
    assert f"Most is lacking for <bdi>{name}</bdi> (<bdi>{project}</bdi>) 100 %." in page
    assert "\u2068" not in page
    printed = json.loads(pdf._as_text(cleaned(made)))
    items = [item for row in printed["blocks"] for item in row.get("items", ())]
    (grade, *_) = [item for item in items if "lacking" in item]
    assert f"\u2068{name}\u2069 (\u2068{project}\u2069) " in grade
    job_page = html.render(job.build(steady_job(name=name, project=f"{project}\u2068\u202e")))
    assert f"<h1>Energy and carbon of <bdi>{name}</bdi></h1>" in job_page
    assert f"in project <bdi>{project}</bdi>, completed" in job_page
    assert job_page.count("<bdi>") == job_page.count("</bdi>")


def test_without_such_a_font_one_notice_names_the_package(monkeypatch):
    bundled = pdf._fonts(False)
    monkeypatch.setattr(pdf, "_fonts", lambda _system: bundled)
    printed = pdf_text(pdf.render(job.build(hostile_job("図像"))))
    said = dense("2 characters of this report could not be printed, and stand as \ufffd")
    assert dense(printed).count(said) == 1
    assert "apt install fonts-noto-cjk." in " ".join(printed.split())


def test_no_page_holds_a_single_line_of_the_words():
    used = Text("SCI, PUE, provisional, energy, embodied carbon, location-based, market-based.")
    for lines in range(28, 52, 4):
        filler = [Text(f"line {n}") for n in range(lines)]
        made = Document("Words", "", "", (Heading("A"), used, *filler), glossary=True)
        *_, last = PdfReader(BytesIO(pdf.render(made))).pages
        body = [line for line in last.extract_text().splitlines() if line.strip()]
        assert len(body) >= 2 + 4, lines  # beside head and foot of the page


def test_a_fault_of_the_template_is_not_taken_for_a_missing_glyph(monkeypatch):
    monkeypatch.setattr(pdf, "_template", lambda: b"#panic(1)")
    with pytest.raises(typst.TypstError, match="panicked"):
        pdf.render(document("empty month"))


def test_the_same_document_gives_the_same_bytes():
    assert pdf.render(DOCUMENTS["month"]()) == pdf_of("month")
    assert html.render(DOCUMENTS["month"]()) == page_of("month")


def test_a_long_table_is_cut_in_print_and_whole_on_the_page():
    rows = tuple((f"row-{n}", str(n)) for n in range(LONG_ROWS))
    table = Table("Long", (Column("Name"), Column("Number", "right")), rows)
    made = Document("Long", "", "2026-05-01", (Heading("All"), Text("Rows"), table))
    data = pdf.render(made)
    found = pdf_text(data)
    assert "row-199" in found
    assert "row-200" not in found
    assert f"200 of {LONG_ROWS} rows" in found
    pages = PdfReader(BytesIO(data)).pages
    # The head of the table stands on every page that has rows of it.
    assert all("Number" in page.extract_text() for page in pages)
    assert html.render(made).count('scope="row"') == LONG_ROWS


@given(st.text())
def test_clean_texts_can_be_written_anywhere(text):
    fit = clean(text)
    fit.encode("utf-8")
    assert {unicodedata.category(c) for c in fit} & {"Cc", "Cs"} == set()
    assert clean(fit) == fit


def test_cleaning_reaches_every_text_of_a_block():
    table = Table("a\x00", (Column("b\x00"),), ((Pair("c\x00", "d\x00"),), ("e\x00",)), "f\x00")
    assert "\x00" not in repr(cleaned(table)).replace("\\x00", "\x00")
