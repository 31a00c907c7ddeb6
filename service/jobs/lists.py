"""Lists, page by page: jobs by filter and order, and revisions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased, defer

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.month.revisions import revision_change
from gramwatt.service.common.answers import (
    JobsAnswer,
    RevisionRow,
    RevisionsAnswer,
)
from gramwatt.service.common.errors import CursorError
from gramwatt.service.common.requests import MAYBE_FLOAT, MAYBE_INT, JobList, cut, decode_cursor
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import JobSummary, find_job, summaries
from gramwatt.service.store.columns import read_job, text_from_us, to_us
from gramwatt.service.store.job_labels import DIGEST, HARDWARE, TAG, ZONE, label_text
from gramwatt.service.store.models import Job, JobLabel, Score
from gramwatt.service.store.people import USER, Person, known_alias

VALUES_MOST = 500
"""Up to so many different names, models or labels are looked at one by one."""
FEW_MATCHES = 1_000
"""Up to so many jobs with a text or with labels are looked up one by one."""
Condition = sa.ColumnElement[bool]


def found_by(service: Service, text: str) -> Condition:
    """Return what is asked of a row of jobs, so that it is one that `q` of a list finds.

    The session that asks sees to it that the rows are the caller's.
    """
    of_job, of_label = _conditions(service, text)
    ways = [sa.select(Job.id).where(condition) for condition in of_job]
    ways += [sa.select(JobLabel.job).where(condition) for condition in of_label]
    # To know its project SQLite would look up the row of every name and label that it reads;
    # PostgreSQL begins with the caller's jobs where these are few.
    store = service.for_every_project().store if service.store.is_sqlite else service.store
    with store.read() as session:
        few = list(session.scalars(sa.union_all(*ways).limit(FEW_MATCHES + 1)))
    if len(few) <= FEW_MATCHES:
        return Job.id.in_(set(few))
    # Of many, a walk through the jobs in order soon has a page.
    labelled = [
        sa.select(JobLabel.job).where(JobLabel.job == Job.id, condition) for condition in of_label
    ]
    return sa.or_(*of_job, *(condition.offset(0).correlate(Job).exists() for condition in labelled))


def _conditions(service: Service, text: str) -> tuple[list[Condition], list[Condition]]:
    """Return conditions on a job, joined by OR, and on one of its labels."""
    plain = text.replace("/", "//").replace("%", "/%").replace("_", "/_")
    # SQLite's LIKE knows the case of the letters a to z alone.
    glob = _glob(text) if service.store.is_sqlite and not text.isascii() else None

    of_user = label_text(TAG, f"{USER}:")

    def within(column: sa.ColumnElement[str]) -> Condition:
        if glob is not None:
            return column.op("GLOB")(f"*{glob}*")
        return column.icontains(text, autoescape=True)

    def is_tag(label: sa.ColumnElement[str]) -> Condition:
        pattern = label.ilike(f"{TAG}:%{plain}%", escape="/")
        if glob is not None:
            pattern = label.op("GLOB")(f"{TAG}:*{glob}*")
        return sa.and_(pattern, label.not_like(f"{label_text(TAG, '')}{DIGEST}%"))

    def is_plain_tag(label: sa.ColumnElement[str]) -> Condition:
        return sa.and_(is_tag(label), label.not_like(f"{of_user}%"))

    # A caller who sees some projects would walk through the values of the others, row by row.
    with service.for_every_project().store.read() as session:
        of_name = _having(session, Job.name, within)
        of_model = _having(session, Job.model_id, within)
        named = sa.select(Person.alias).where(is_tag(sa.literal(of_user) + Person.name))
        users = [f"{of_user}{alias}" for alias in session.scalars(named)]
        of_label = _having(session, JobLabel.label, is_plain_tag)
        return (
            [_begins_id(text), *of_name, *of_model],
            [*of_label, *([JobLabel.label.in_(users)] if users else [])],
        )


def _begins_id(text: str) -> Condition:
    # The first finds it by the index of PostgreSQL; the second, because SQLite's ignores case.
    begins = Job.job_id.startswith(text, autoescape=True)
    return sa.and_(begins, sa.func.substr(Job.job_id, 1, len(text)) == text)


def _glob(text: str) -> str:
    """Return the GLOB pattern of SQLite for a text, whatever the case of its letters."""
    pattern = ""
    for character in text:
        cases = {character, character.lower(), character.upper(), character.upper().lower()}
        same = "".join(sorted(case for case in cases if len(case) == 1))
        pattern += f"[{same}]" if len(same) > 1 or same in "*?[" else same
    return pattern


def _having(
    session: Session,
    column: InstrumentedAttribute[Any],
    matches: Callable[[Any], Condition],
) -> list[Condition]:
    """Return what a row is asked, so that its value matches; nothing where no value does."""
    values = _matching(session, column, matches)
    if values is None:
        return [matches(column)]
    return [column.in_(values)] if values else []


def _matching(
    session: Session,
    column: InstrumentedAttribute[Any],
    matches: Callable[[Any], Condition],
) -> Sequence[str] | None:
    """Return the values of the column that match; None where it has more than `VALUES_MOST`.

    Each value costs one search of the column's index.
    """
    met = sa.select(sa.func.min(column).label("value")).cte("met", recursive=True)
    following = sa.select(sa.func.min(column)).where(column > met.c.value)
    met = met.union_all(
        sa.select(following.correlate(met).scalar_subquery()).where(met.c.value.is_not(None))
    )
    statement = sa.select(met.c.value, matches(met.c.value)).where(met.c.value.is_not(None))
    rows = session.execute(statement.limit(VALUES_MOST + 1)).all()
    return [value for value, match in rows if match] if len(rows) <= VALUES_MOST else None


_COLUMNS: dict[str, InstrumentedAttribute[Any]] = {
    "started_at": Job.started_us,
    "ended_at": Job.ended_us,
    "duration": Job.duration_s,
    "energy": Job.energy_kwh,
    "total": Job.total_g,
}


TAG_SEPARATOR = re.compile("[:=]")


def column_of(query: JobList) -> InstrumentedAttribute[Any]:
    """Return the column that the list is sorted by."""
    return _COLUMNS[query.sort.removeprefix("-")]


def is_descending(query: JobList) -> bool:
    """Return whether the largest comes first."""
    return query.sort.startswith("-")


def filter_conditions(query: JobList) -> Iterator[sa.ColumnElement[bool]]:
    """Return what the filters ask of a row of jobs, but for projects, labels and `q`."""
    for name in ("kind", "state", "name", "model_id"):
        value = getattr(query, name)
        if value is not None:
            yield getattr(Job, name) == value
    yield from started(query, Job.started_us)


def started(
    query: JobList, start_us: InstrumentedAttribute[int]
) -> Iterator[sa.ColumnElement[bool]]:
    """Return what `since` and `until` ask of a start, in [since, until)."""
    if query.since is not None:
        yield start_us >= to_us(query.since)
    if query.until is not None:
        yield start_us < to_us(query.until)


def is_by_labels(query: JobList) -> bool:
    """Return whether labels, projects and the start alone say which jobs, and in which order."""
    others = (query.kind, query.state, query.name, query.model_id, query.q)
    alone = all(other is None for other in others) and column_of(query) is Job.started_us
    return alone and any(labels_of(query))


def of_alias(query: JobList, alias: Callable[[str], str | None]) -> JobList:
    """Return the request with the alias of a person where it has a name."""
    start = f"{USER}:"
    tags = [TAG_SEPARATOR.sub(":", text, count=1) for text in query.tag]
    names = [*([query.user] if query.user is not None else [])]
    names += [tag.removeprefix(start) for tag in tags if tag.startswith(start)]
    users = [f"{start}{alias(name) or name}" for name in names]
    others = [tag for tag in tags if not tag.startswith(start)]
    return replace(query, user=None, tag=[*users, *others])


def labels_of(query: JobList) -> Iterator[str]:
    """Yield the labels that a job must have."""
    for kind, value in ((HARDWARE, query.hardware), (ZONE, query.zone)):
        if value is not None:
            yield label_text(kind, value)
    for text in query.tag:
        yield label_text(TAG, text)


NEWEST = JobList()
FEW = 2_000
"""Up to so many jobs of a label are looked up one by one, whatever the order of the list."""
PROJECTS_EACH = 5
"""Of up to so many projects of a caller each one's first jobs are read, and merged; of more the
jobs of all are read in order, and each place in the index is asked for its project."""
Key = sa.Row[Any, int]
"""A job's place in the order of a list: its value of the column, and its key."""
Walk = sa.Select[Any, int]
"""Places of jobs by an index that is in the order of the list."""


def list_jobs(service: Service, query: JobList = NEWEST) -> tuple[list[JobSummary], str | None]:
    """Return jobs in order, and the cursor of the next page.

    Raises CursorError for a text that is no cursor of the list in this order.
    """
    after = _position(query.cursor, query) if query.cursor else None
    # `_keys` asks for the caller's projects itself: the condition that a restricted session adds
    # to every label and to every key has SQLite look up far more rows than a page has.
    projects = service.store.projects
    with service.for_every_project().store.read() as session:
        chosen = of_alias(query, lambda name: known_alias(session, name))
        keys = _keys(service, session, chosen, after, query.limit + 1)
        shown, following = cut(keys, query.limit, lambda key: (query.sort, *key))
        shown_keys = [key for _, key in shown]
        rows = session.scalars(sa.select(Job).where(Job.id.in_(shown_keys)))
        jobs = {job.id: job for job in rows if projects is None or job.project in projects}
        # One may have been deleted between the two statements.
        return summaries(session, [jobs[key] for key in shown_keys if key in jobs]), following


def jobs_page(service: Service, query: JobList, *, wait: bool = True) -> JobsAnswer:
    """Return the heads of `list_jobs`, of running jobs the energy so far; raises CursorError.

    With a model, the first page has the sums over all its runs, whatever project or state is
    shown; without `wait`, unless making them takes long.
    """
    jobs, following = list_jobs(service, query)
    heads = [job.head for job in jobs]
    unscored = [h.job_id for h in heads if h.state == "running" and h.energy_kwh is None]
    if unscored:
        from gramwatt.service.months.pending import energy_so_far  # rarely needed

        so_far = energy_so_far(service, unscored)
        heads = [
            replace(h, energy_kwh=so_far[h.job_id]) if h.job_id in so_far else h for h in heads
        ]
    answer = JobsAnswer(jobs=heads, next_cursor=following)
    if query.model_id is not None and query.cursor is None:
        # Other lists, also those of a command, start without the engine.
        from gramwatt.service.jobs.models import totals_of_model

        sums = totals_of_model(service, query.model_id, wait=wait)
        if sums is not None:
            answer.model = sums
    return answer


def _position(cursor: str, query: JobList) -> tuple[Any, int]:
    kind = MAYBE_INT if column_of(query).type.python_type is int else MAYBE_FLOAT
    sort, value, key = decode_cursor(cursor, str, kind, int)
    if sort != query.sort:
        raise CursorError("a cursor of the list in another order; leave it out to start")
    return value, key


def _keys(
    service: Service, session: Session, query: JobList, after: tuple[Any, int] | None, most: int
) -> Sequence[Key]:
    """Return the keys of the next jobs of the caller's projects, in order."""
    projects = _projects(service, query)
    labels, few = _rarest_first(session, labels_of(query), projects)
    conditions = list(filter_conditions(query))
    if query.q is not None:
        conditions.append(found_by(service, query.q))
    if few is not None:
        conditions.append(Job.id.in_(few))
    several = projects is not None and len(projects) > PROJECTS_EACH
    by_labels = is_by_labels(query) and (few is None or not several)
    in_order = few is None and column_of(query) is Job.started_us

    def walks(condition: Callable[[Any], Iterable[Condition]]) -> Sequence[Walk]:
        """Return what must all meet a job of projects that the condition of a column names."""
        meeting, others = list[Walk](), list(labels)
        if by_labels or (service.store.is_sqlite and in_order):
            while others and (service.store.is_sqlite or not meeting):
                meeting.append(_of_label(query, others.pop(0), condition))
        if not by_labels:
            own = sa.select(column_of(query), Job.id)
            meeting.append(own.where(*conditions, *condition(Job.project)))
        *before, last = meeting
        key = last.selected_columns[1]
        # An alias of its own for each label: the walk's table may be the same.
        having = (_has_label(key, label).correlate(key.table).exists() for label in others)
        return [*before, last.where(*having)]

    # The index of a name has projects behind the order; one of a project has no names.
    narrow = any(value is not None for value in (query.kind, query.name, query.model_id, query.q))
    if projects is None:
        each = [walks(lambda _: ())]
    elif not narrow and not several:
        each = [walks(partial(_is, name)) for name in projects]
    else:  # the function keeps both databases from an index that begins with the project
        each = [walks(lambda project: [sa.func.coalesce(project, "").in_(projects)])]
    return _walk(session, query, each, after, most, lazily=service.store.is_sqlite) if each else []


def _is(name: str, project: Any) -> Iterable[Condition]:
    return [project == name]


def _projects(service: Service, query: JobList) -> Sequence[str] | None:
    """Return the projects of the list that the caller sees; None for all."""
    projects = service.store.projects
    if query.project is None:
        return None if projects is None else sorted(projects)
    return [query.project] if projects is None or query.project in projects else []


def _of_label(
    query: JobList, label: str, of_projects: Callable[[Any], Iterable[Condition]]
) -> Walk:
    walked = aliased(JobLabel)
    conditions = [walked.label == label, *started(query, walked.started_us)]
    conditions += of_projects(walked.project)
    return sa.select(walked.started_us, walked.job).where(*conditions)


def _walk(
    session: Session,
    query: JobList,
    walks: Sequence[Sequence[Walk]],
    after: tuple[Any, int] | None,
    most: int,
    *,
    lazily: bool,
) -> Sequence[Key]:
    """Return the next keys that all walks of one of the sequences meet: by the column those that
    have it, then the others.

    Two steps where the column may be unknown: each reads its index in order.
    """
    keys = list[Key]()
    value, last = after or (None, None)

    def of_value(column: Any, key: Any) -> Iterator[Condition]:
        yield column.is_not(None)
        if after is not None:
            place = sa.tuple_(column, key)
            yield _after_cursor(query, place, sa.tuple_(value, last))

    def of_none(column: Any, key: Any) -> Iterator[Condition]:
        yield column.is_(None)
        if after is not None and value is None:
            yield _after_cursor(query, key, last)

    read = partial(_next, query, walks, lazily=lazily)
    if after is None or value is not None:
        keys += session.execute(read(of_value, most)).all()
    if len(keys) < most and column_of(query).nullable:
        keys += session.execute(read(of_none, most - len(keys))).all()
    return keys


def _next(
    query: JobList,
    walks: Sequence[Sequence[Walk]],
    conditions: Callable[[Any, Any], Iterable[Condition]],
    most: int,
    *,
    lazily: bool,
) -> sa.Select[Any, int]:
    """Return the first rows in order of all sequences, merged.

    SQLite reads each only as far as the merged rows need it, unless it is limited by itself;
    PostgreSQL would sort the whole of one that is not.
    """
    sequences = [
        [walk.where(*conditions(*walk.selected_columns)) for walk in each] for each in walks
    ]
    if len(sequences) == 1:
        return cast("sa.Select[Any, int]", _first(sequences[0], query, most))
    arms = [
        each[0] if lazily and len(each) == 1 else sa.select(_first(each, query, most).subquery())
        for each in sequences
    ]
    return cast("sa.Select[Any, int]", _merged(sa.union_all(*arms), query, most))


def _first(walks: Sequence[Walk], query: JobList, most: int) -> Any:
    """Return the first rows in order that all walks meet.

    SQLite reads the index of each in that order and stops with the page.
    """
    if len(walks) == 1:
        return walks[0].order_by(*_order(query, *walks[0].selected_columns)).limit(most)
    return _merged(sa.intersect(*walks), query, most)


def _merged(rows: Any, query: JobList, most: int) -> Any:
    """Return the first rows in order; by number, as the walks differ in their columns' names."""
    places: list[Any] = [sa.literal_column("1"), sa.literal_column("2")]
    return rows.order_by(*_order(query, *places)).limit(most)


def _has_label(key: Any, label: str) -> sa.Select[int]:
    """Return a row where a job has a label.

    Asked of each row on the way: SQLite would list all that `in` finds first, and PostgreSQL, but
    for the offset, join by its guess of how many jobs share two labels.
    """
    other = aliased(JobLabel)
    return sa.select(sa.literal(1)).where(other.job == key, other.label == label).offset(0)


def _rarest_first(
    session: Session, labels: Iterable[str], projects: Sequence[str] | None
) -> tuple[list[str], Sequence[int] | None]:
    """Return labels, one that few jobs of the projects have first, and the keys of its jobs where
    they are few.

    Of many a walk through the jobs in order soon has a page; of few it would read most jobs.
    """
    of_projects = [] if projects is None else [JobLabel.project.in_(projects)]
    jobs = {
        label: session.scalars(
            sa.select(JobLabel.job).where(JobLabel.label == label, *of_projects).limit(FEW + 1)
        ).all()
        for label in labels
    }
    ordered = sorted(jobs, key=lambda label: len(jobs[label]))
    few = jobs[ordered[0]] if ordered else None
    return ordered, few if few is not None and len(few) <= FEW else None


def _order(query: JobList, *columns: Any) -> list[Any]:
    return [column.desc() if is_descending(query) else column for column in columns]


def _after_cursor(query: JobList, place: Any, position: Any) -> sa.ColumnElement[bool]:
    """Return whether a place comes after a position in the order of the list."""
    if is_descending(query):
        return cast("sa.ColumnElement[bool]", place < position)
    return cast("sa.ColumnElement[bool]", place > position)


MOST = 2**31 - 1
"""The largest number of a revision."""


def revisions_page(
    service: Service, job_id: str, limit: int, cursor: str | None
) -> RevisionsAnswer:
    """Score revisions of a job, newest first; raises UnknownJobError or CursorError."""
    # PostgreSQL takes no number that its column cannot hold, not even to compare with it.
    before = min(max(decode_cursor(cursor, int)[0], 0), MOST) if cursor else MOST
    with service.store.read() as session:
        statement = (
            sa.select(Score)
            .options(defer(Score.series))
            .where(Score.job == find_job(session, job_id).id, Score.revision < before)
            .order_by(Score.revision.desc())
            .limit(limit + 1)
        )
        rows = session.scalars(statement).all()
    shown, following = cut(rows, limit, lambda score: (score.revision,))
    documents = [read_job(score.doc) for score in rows]
    earlier = [*documents[1:], None]
    return RevisionsAnswer(
        revisions=list(map(_revision, shown, documents, earlier)),
        next_cursor=following,
    )


def _revision(score: Score, document: JobDoc, before: JobDoc | None) -> RevisionRow:
    return RevisionRow(
        revision=score.revision,
        made_at=text_from_us(score.made_us),
        reason=score.reason,
        engine_version=score.engine_version,
        catalog_version=score.catalog_version,
        conformance=score.conformance,
        energy_kwh=document.energy_kwh,
        total_g=document.total_g,
        change=revision_change(before, document) if before is not None else None,
    )
