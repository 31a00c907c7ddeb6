"""Reports: HTML, PDF, tables and other tools' formats from job and month documents.

It reads no database and no network: the documents are its only input.

- `job.build`, `month.build`: the report of a document, as blocks (`model`) of its sections
  (`sections`).
- `html.render`, `pdf.render`: a report as a page or as PDF bytes; `charts.draw`: a chart as SVG.
- `tables.month_tables`: a month as tables of numbers, for Excel files and CSV.
- `exports`: a job as Impact Framework manifest, model card or CSV.
"""
