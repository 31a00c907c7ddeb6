"""Messages that leave the service: alerts of budgets and finished monthly reports.

`outbox` delivers them, again and again until they are taken, by `channels` (webhook, mail) to
checked `addresses`; `delivery.announce` puts reports into the outbox, `delivery.files` makes their
files, `s3.put` sends to a store.
"""
