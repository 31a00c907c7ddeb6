"""Receivers that take messages in a form of their own: Slack, Microsoft Teams and PagerDuty.

Which one it is shows in the host of the address, or is written before it, as for a Mattermost that
takes Slack's form: `slack+https://chat.example.org/hooks/KEY`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args
from urllib.parse import parse_qs, urlsplit

Form = Literal["slack", "teams", "pagerduty"]
FORMS: tuple[Form, ...] = get_args(Form)
_HOSTS: dict[str, Form] = {
    "hooks.slack.com": "slack",
    ".webhook.office.com": "teams",
    ".logic.azure.com": "teams",
    ".api.powerplatform.com": "teams",
    "events.pagerduty.com": "pagerduty",
    "events.eu.pagerduty.com": "pagerduty",
}
_SLACK_SIGNS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_CARD = "application/vnd.microsoft.card.adaptive"
SUMMARY_MOST = 1024
"""Characters of a summary that PagerDuty takes."""


def form_of(address: str) -> tuple[Form | None, str]:
    """Return the form of a webhook's receiver, None for our own, and its address without it."""
    for form in FORMS:
        if address.startswith(f"{form}+"):
            return form, address.removeprefix(f"{form}+")
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:  # no address, as its parser says
        host = ""
    ends = (end for end in _HOSTS if host == end or (end[0] == "." and host.endswith(end)))
    return next((_HOSTS[end] for end in ends), None), address


def routing_key(query: str) -> str:
    """Return PagerDuty's key of an integration in an address; empty without one."""
    return parse_qs(query).get("routing_key", [""])[0]


def body_of(
    form: Form, address: str, subject: str, text: str, doc: Mapping[str, Any], delivery: str
) -> dict[str, Any]:
    """Return the message as its receiver documents it."""
    if form == "slack":
        return {"text": f"*{subject}*\n```{text}```".translate(_SLACK_SIGNS)}
    if form == "teams":
        lines = [{"type": "TextBlock", "text": line, "wrap": True} for line in text.splitlines()]
        title = {"type": "TextBlock", "text": subject, "weight": "Bolder", "wrap": True}
        card = {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.2",
            "body": [title, *lines],
        }
        attached = {"contentType": _CARD, "contentUrl": None, "content": card}
        return {"type": "message", "attachments": [attached]}
    spent = (doc.get("spent_share") or 0) >= 1
    return {
        "routing_key": routing_key(urlsplit(address).query),
        "event_action": "trigger",
        "dedup_key": delivery,
        "payload": {
            "summary": subject[:SUMMARY_MOST],
            "source": "gramwatt",
            "severity": "error" if spent else "warning",
            "custom_details": dict(doc),
        },
    }
