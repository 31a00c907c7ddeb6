"""A PostgreSQL that takes no writes, as after a failover; and what errors and logs show."""

import logging

import pytest
import sqlalchemy as sa

from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.store.access import ApiKey
from gramwatt.service.store.migrate import upgrade
from tests.service.keyed import client_of

SECRET = "https://hooks.slack.com/services/T0/B0/SECRET"
BUDGET = {"project": "p", "limit_kg": 1, "webhook": SECRET}


@pytest.fixture
def postgres(new_postgres, tmp_path, clock):
    config = ServiceConfig(home=tmp_path, database_url=new_postgres(), clock=clock)
    service = Service.open(config)
    upgrade(service.store)
    yield service
    service.store.close()


def test_a_read_only_database_is_503_not_ready_and_its_connections_are_dropped(postgres, caplog):
    service = postgres
    ask = client_of(service)
    ask.get("/v1/jobs")

    def demote(connection, *_):
        connection.rollback()
        connection.read_only = True

    engine = service.store.engine
    sa.event.listen(engine, "checkout", demote)
    with caplog.at_level(logging.DEBUG):
        answer = ask.post("/v1/budgets", json=BUDGET)
        ready = ask.get("/readyz")
    assert (answer.status_code, answer.json["code"]) == (503, "not-ready")
    assert (ready.status_code, ready.json["detail"]) == (503, "the database is read-only")
    sa.event.remove(engine, "checkout", demote)
    assert "SECRET" not in caplog.text + answer.text
    ask.post("/v1/budgets", json=BUDGET)  # drops what the request for readiness has left
    assert ask.post("/v1/budgets", json=BUDGET).status_code == 200
    assert ask.get("/readyz").status_code == 200


def test_no_error_has_the_parameters_of_a_statement(service):
    """Nor what PostgreSQL quotes of a row under DETAIL."""

    def add(session):
        session.add_all(ApiKey(**row) for _ in range(2))

    row = {"name": "n", "prefix": SECRET, "origin": "o", "digest": "d", "scope": "read"}
    row |= {"created_us": 1, "created_by": "a"}
    with pytest.raises(sa.exc.IntegrityError) as refused, service.store.write() as session:
        add(session)
    assert "SECRET" not in f"{refused.value} {refused.value.orig}"
    with pytest.raises(sa.exc.SQLAlchemyError) as wrong, service.store.read() as session:
        session.execute(sa.text("SELECT :x FROM nowhere"), {"x": SECRET})
    assert "SECRET" not in str(wrong.value)
