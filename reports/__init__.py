"""Reports: HTML, PDF, CSV and other tools' formats from job and month documents.

It reads no database and no network: the documents are its only input.

- `job.build`, `month.build`: the report of a document, as blocks (`model`).
- `html.render`, `pdf.render`: a report as a page or as PDF bytes; `charts.draw`: a chart as SVG.
- `csv.month_csv`: a month as CSV.
- `exports`: a job as Impact Framework manifest, SCI form, model card or CSV.
"""
