"""What people do to a job beside measuring it: opened by hand, corrected, deleted.

`opening.open_job`, `corrections.correct_job`, `deletion.delete_job`.
"""
