"""What follows from scored jobs: months, sums of a model's runs, comparisons.

`rows` fills the tables that `columns` describes, `document` makes a month of their sums (SQL, in
`service/months`), `change` and `revised` say why it differs, `yearly` adds up months.
`compare.compare` and `repeated.compare_runs` compare jobs, `breakdown` divides a job,
`revisions.revision_change` says what another score of a job changed.
"""
