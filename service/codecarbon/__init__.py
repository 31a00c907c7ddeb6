"""codecarbon's emissions.csv as ordinary journal records (`machine`), so that months, reports and
corrections work as for measured jobs. `emissions_csv.import_csv`.
"""
