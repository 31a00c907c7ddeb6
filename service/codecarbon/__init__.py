"""What users of codecarbon bring along: its client's messages and its emissions.csv.

Both become ordinary journal records (`client`), so months, reports and corrections work as for
measured jobs. `runs.add_run`, `runs.add_emission`, `emissions_csv.import_csv`.
"""
