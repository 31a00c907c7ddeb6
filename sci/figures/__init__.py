"""What the whole engine needs: quantities with ranges, units, errors, notices, documents.

`quantity.Quantity` and `quantity.total`, `meters.energy`, `units` (every conversion),
`notices.Notice`, `errors`, `document` (shapes of JSON documents), `formatting.text`,
`csv_data.rows`, `csv_data.Row`.
"""
