"""A job document in other tools' formats: pure functions from the document to text.

- `impact_framework.manifest`: a manifest that Impact Framework runs to the same totals.
- `imp.imp`: the form of the Green Software Foundation's SCI self-certification.
- `certification.of_job`, `certification.markdown`: that form in its twelve parts, of many jobs
  `submission.of_model` and `submission.of_month`; `completeness.check` names what it lacks.
- `bill_of_materials.cyclonedx`, `bill_of_materials.spdx`, `ai_act.energy_form`: energy of a model's
  runs.
- `modelcard.card`, `modelcard.into_card`: the emissions block of a Hugging Face model card.
- `csv.scicsv`: every figure of the job as CSV.
"""
