"""Who may ask: keys, browser sessions, the projects of a caller, and the audit log.

`keys.authenticate` and `sessions.caller_of` name the caller of a request; what a caller sees is
restricted by the store's sessions (`store.restriction`).
"""
