"""What `docs/how-to/schedule-pipelines.md` shows: commands are real ones, manifests hold together, programs do what
they say."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml

from tests.pipeline.rigs.log_writer import History, LogWriter
from zab.cli.pipeline.call import Call
from zab.cli.pipeline.commands import pipeline_app
from zab.cli.pipeline.job_file import JobFile
from zab.cli.pipeline.jobs import JOBS
from zab.pipeline import read_log
from zab.pipeline.reading.options import Options
from zab.pipeline.schema import LOG
from zab.pipeline.streaming.stream import STARTING, parse_starting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "how-to" / "schedule-pipelines.md").read_text(encoding="utf-8")
PARSED = "A test parses this example but does not run it"
NOT_RUN = {"Airflow": PARSED, "Kubernetes": PARSED, "Kafka": "No test runs this program: "}
RUN = ("Delta Lake", "Iceberg")
TEMPLATE = re.compile(r"\{\{ (data_interval_start|data_interval_end|ds) \}\}")
VALUES = {
    "data_interval_start": "2026-03-01 00:00:00+00:00",
    "data_interval_end": "2026-03-02 00:00:00+00:00",
    "ds": "2026-03-01",
}
"""What Airflow puts for these."""


def block(title: str, language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", section(title), re.DOTALL)
    return str(found)


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def called(words: list[str]) -> Call | JobFile:
    """What `zab pipeline WORDS` would do; an error for a command, an option or a value that there is not."""
    assert words[:2] == ["zab", "pipeline"]
    name, *rest = words[2:]
    command = typer.main.get_group(pipeline_app).commands[name]
    with command.make_context(name, list(rest)) as context:
        found: Call | JobFile = command.invoke(context)
    return found


def test_every_recipe_says_whether_it_is_run() -> None:
    titles = set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE))
    assert titles == {*NOT_RUN, *RUN}
    for title in RUN:
        assert section(title).startswith("\nA test runs this program")
    for title, said in NOT_RUN.items():
        assert section(title).startswith(f"\n{said}")


def shell_commands(program: str) -> Iterator[list[str]]:
    for call in ast.walk(ast.parse(program)):
        if isinstance(call, ast.keyword) and call.arg == "bash_command":
            text = ast.literal_eval(call.value)
            yield shlex.split(TEMPLATE.sub(lambda found: VALUES[found[1]], text))


def test_airflow_calls_commands_that_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = block("Airflow", "python")
    compile(program, "dag.py", "exec")
    (tmp_path / "nightly").write_text("verify data\n")
    nightly, changes = shell_commands(program)
    nightly = [word.replace("/etc/zab", str(tmp_path)) for word in nightly]
    assert isinstance(called(nightly), JobFile)
    call = called(changes)
    assert isinstance(call, Call)
    assert call.job is JOBS["audit"]
    assert (call.range.since, call.range.until) != (None, None)
    assert "{{" not in " ".join(changes), "a template without a value"


def test_kubernetes_runs_the_jobs_of_its_own_file(tmp_path: Path) -> None:
    jobs, cron = yaml.safe_load_all(block("Kubernetes", "yaml"))
    assert (jobs["kind"], cron["kind"]) == ("ConfigMap", "CronJob")
    (name, text) = next(iter(jobs["data"].items()))
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in mounts.values()} == volumes.keys()
    assert volumes[mounts["/etc/zab"]["name"]]["configMap"]["name"] == jobs["metadata"]["name"]
    assert f"/etc/zab/{name}" in container["args"]
    (tmp_path / name).write_text(text)
    words = [word.replace("/etc/zab", str(tmp_path)) for word in container["args"]]
    found = called(words)
    assert isinstance(found, JobFile)
    assert found.spark.url == f"local[{container['resources']['limits']['cpu']}]"
    for line in found.lines:
        assert all(mounts[place]["readOnly"] for place in line.call.dirs)
        assert all(mounts[f"/{out.split('/')[1]}"].get("readOnly") is None for out in outputs(line.call))
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]


def outputs(call: Call) -> list[str]:
    return [str(call.own["out"])] if "out" in call.own else []


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def writer(tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch) -> LogWriter:
    """A member's directory, named as on the page."""
    monkeypatch.chdir(tmp_path)
    writer = LogWriter(tmp_path / "data")
    write(writer, history)
    return writer


def write(writer: LogWriter, history: History) -> None:
    writer.log.append([history.add(4), history.add(6)])
    writer.log.set_mark(history.zxid)


def run_recipe(title: str) -> None:
    exec(compile(block(title, "python"), f"{title}.py", "exec"), {"__name__": "__main__"})


def check_appends_once(title: str, spark: SparkSession, writer: LogWriter, history: History, rows: Any) -> None:
    """Twice over the same, then over more: `rows()` are those of the table."""
    run_recipe(title)
    run_recipe(title)
    assert sorted(rows()["zxid"].to_pylist()) == history.zxids()[:10]
    write(writer, history)
    run_recipe(title)
    expected = read_log(spark, ["data"], members="one").toArrow()
    found = rows().select(expected.column_names).sort_by("zxid")
    assert found.num_rows == 20
    assert found.to_pylist() == expected.sort_by("zxid").to_pylist()


@pytest.mark.spark
def test_delta_has_each_transaction_once(spark: SparkSession, writer: LogWriter, history: History) -> None:
    deltalake = pytest.importorskip("deltalake", reason="needs deltalake: pip install 'zab[test]'")
    check_appends_once(
        "Delta Lake", spark, writer, history, lambda: deltalake.DeltaTable("transactions.delta").to_pyarrow_table()
    )
    table = deltalake.DeltaTable("transactions.delta")
    assert (table.version(), table.transaction_version("zab")) == (1, history.zxid)


@pytest.mark.spark
def test_iceberg_has_each_transaction_once(spark: SparkSession, writer: LogWriter, history: History) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql", reason="needs pyiceberg: pip install 'zab[test]'")
    place = Path("iceberg").absolute()

    def table() -> Any:
        catalog = sql.SqlCatalog("zab", uri=f"sqlite:///{place}/catalog.db", warehouse=place.as_uri())
        found = catalog.load_table("zab.transactions")
        catalog.close()
        return found

    check_appends_once("Iceberg", spark, writer, history, lambda: table().scan().to_arrow())
    assert [each.summary["zab.zxid"] for each in table().snapshots()] == [str(history.zxids()[9]), str(history.zxid)]
    # Another program's snapshot does not say how far it is.
    table().append(table().scan().to_arrow().slice(0, 0))
    with pytest.raises(TypeError, match="int"):
        run_recipe("Iceberg")
    assert table().scan().to_arrow().num_rows == 20


def test_kafka_names_columns_and_options_that_there_are() -> None:
    program = block("Kafka", "python")
    compile(program, "kafka.py", "exec")
    names = {column.name for column in LOG}
    (packed,) = re.findall(r"struct\(([^)]+\)[^)]+)\)", program)
    used = re.findall(r"[a-z_]+", packed.replace("base64(data) AS ", ""))
    assert set(used) <= names, set(used) - names
    assert {"path", "error"} <= names
    given = dict(re.findall(r"""\.option\("(dirs|startingZxid)", ['"]+(.+?)['"]+\)""", program))
    assert list(Options.parse(given, also=[STARTING]).dirs) == ["data"]
    assert parse_starting(given[STARTING]) == "earliest"


def test_the_page_is_named_where_the_pipeline_is_described() -> None:
    assert "(../how-to/schedule-pipelines.md)" in (ROOT / "docs" / "reference" / "pipeline.md").read_text(
        encoding="utf-8"
    )
