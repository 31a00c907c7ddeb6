"""A job document in other tools' formats: pure functions from the document to text."""
