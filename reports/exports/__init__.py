"""A job document in other tools' formats: pure functions from the document to text.

- `impact_framework.manifest`: a manifest that Impact Framework runs to the same totals.
- `modelcard.card`, `modelcard.into_card`: the emissions block of a Hugging Face model card.
- `csv.scicsv`: every figure of the job as CSV.
"""
