"""The two renderers: complete, inert towards hostile texts, and the same every time."""

import re
from io import BytesIO

import pytest
from pypdf import PdfReader

from gramwatt.reports import html, job, month, pdf
from gramwatt.reports.document import Column, Document, Heading, Table, Text
from tests.reports import samples

DOCUMENTS = {
    "job": lambda: job.build(samples.job()),
    "job without zone": lambda: job.build(samples.job(zone=None)),
    "unknown job": lambda: job.build(samples.unknown_job()),
    "month": lambda: month.build(samples.month([samples.job()])),
    "empty month": lambda: month.build(samples.month([])),
}


def pdf_text(data):
    return "\n".join(page.extract_text() for page in PdfReader(BytesIO(data)).pages)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_page_holds_every_heading_and_asks_nobody(name):
    document = DOCUMENTS[name]()
    page = html.render(document)
    for block in document.blocks:
        if isinstance(block, Heading):
            assert f">{block.text}</h{block.level + 1}>" in page
    assert page.count("<h1>") == 1
    # Names of vocabularies in the drawings are no addresses to fetch.
    fetched = re.findall(r"(?:src|href|url)\s*[=(]\s*[\"']?https?:", page)
    assert fetched == []
    assert "<script" not in page
    assert "default-src 'none'" in page.replace("&#39;", "'")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_pdf_is_tagged_titled_and_complete(name):
    document = DOCUMENTS[name]()
    data = pdf.render(document)
    reader = PdfReader(BytesIO(data))
    assert reader.metadata.title == document.title
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]
    assert reader.trailer["/Root"]["/Lang"] == "en"
    found = re.sub(r"\s+", "", pdf_text(data))
    for block in document.blocks:
        if isinstance(block, Heading):
            assert re.sub(r"\s+", "", block.text) in found


def test_hostile_texts_stay_texts_on_the_page():
    page = html.render(job.build(samples.job(name=samples.HOSTILE, project=samples.HOSTILE)))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_hostile_texts_stay_texts_in_print():
    data = pdf.render(job.build(samples.job(name=samples.HOSTILE, project=samples.HOSTILE)))
    found = re.sub(r"\s+", "", pdf_text(data))
    assert "<script>alert(1)</script>" in found
    assert '"#letx"$a_b$*b*\\[c]' in found


def test_a_script_that_no_font_here_has_still_makes_a_report():
    found = pdf_text(pdf.render(job.build(samples.job(name="图像分类 🌍", project="ビジョン"))))
    assert "The score and its terms" in found


def test_a_very_long_name_breaks_nothing():
    data = pdf.render(job.build(samples.job(name="x" * 500)))
    assert data.startswith(b"%PDF-1.7")


@pytest.mark.parametrize("name", ["job", "month"])
def test_the_same_document_gives_the_same_bytes(name):
    assert pdf.render(DOCUMENTS[name]()) == pdf.render(DOCUMENTS[name]())
    assert html.render(DOCUMENTS[name]()) == html.render(DOCUMENTS[name]())


def test_a_long_table_is_cut_in_print_and_whole_on_the_page():
    rows = tuple((f"row-{n}", str(n)) for n in range(2400))
    table = Table("Long", (Column("Name"), Column("Number", "right")), rows)
    document = Document("Long", "", "2026-05-01", (Heading("All"), Text("Rows"), table))
    found = pdf_text(pdf.render(document))
    assert "row-199" in found
    assert "row-200" not in found
    assert "200 of 2400 rows" in found
    assert html.render(document).count('scope="row"') == 2400


def test_drawings_carry_their_words_for_those_who_do_not_see_them():
    page = html.render(job.build(samples.job()))
    assert 'role="img" aria-label="Stacked bars of mean power over time:' in page
    assert page.count("Data behind this chart") == 2
