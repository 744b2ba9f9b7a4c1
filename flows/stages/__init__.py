"""The stages of a run, in order: each reads the run folder, works, writes its outputs and says one line.

`STAGES` is the one list of them. The pipeline, Prefect's tasks, the closing table on the terminal, tests
and documentation are made from it. To add a stage, write its file here, its entry in `STAGES`, its section
of the settings and its test.

The order of the rows of a table changes no output and no release. Names of workers and tasks decide ties, and
which of the seed's random numbers falls to whom, such as the tasks and labels that are held out: with other
names figures move as they do with another seed.

>>> [stage.name for stage in STAGES][:3]
['read_and_check', 'judge_workers', 'aggregate']
>>> [output.name for output in outputs() if output.public]
['public.html', 'public']
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flows.faces import late_face
from flows.stages.stage import Output, Stage, Verdict, counted, late

if TYPE_CHECKING:
    from flows.stages.labels import filter_by
    from flows.stages.learning import beside_people, hear_models, of_models_alone
    from flows.stages.workers import refuse_more_workers

__all__ = [
    "STAGES", "Output", "Stage", "Verdict", "beside_people", "counted", "filter_by", "hear_models",
    "of_models_alone", "output_list", "outputs", "refuse_more_workers",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)

MANIFEST = Output(
    "manifest.json", "settings, digests of the inputs, versions, and each stage's line and time"
)

STAGES = (
    Stage(
        "read_and_check",
        "Read and check the tables; write nothing before all of them are sound.",
        late("reading", "read_and_check"),
        (
            Output("crowd.npz", "what was read: labels, tasks, features, gold", private_names=True),
            Output(
                "inputs.json", "keyed digests of the input files, and exact sizes of the campaign"
            ),
            *(
                Output(
                    name,
                    "a table of several files, or a query's rows",
                    private_names=True,
                    only="several files or a query",
                )
                for name in (
                    "labels.parquet",
                    "tasks*.parquet",
                    "gold.parquet",
                    "reference.parquet",
                )
            ),
            Output(
                "task_texts.parquet",
                "what each task is, where a column says it",
                private_names=True,
                only="task texts",
            ),
            Output("topic_texts.parquet", "the tasks' texts", private_names=True, only="topics"),
            Output("shards", "the labels, cut by task", private_names=True, only="engine"),
            Output(
                "features", "the tasks' features, group by group", private_names=True, only="engine"
            ),
        ),
        settings="input",
        reads_input=True,
    ),
    Stage(
        "judge_workers",
        "Judge the workers, and remove those whom the filter finds.",
        late("workers", "judge_workers"),
        (
            Output("workers.parquet", "each worker's reputation and penalties", private_names=True),
            Output(
                "quality.json",
                "agreement, who was removed, and who does not answer alone",
                private_names=True,
            ),
            Output("robustness.json", "how many tasks adversaries could turn"),
            Output(
                "potentials.parquet",
                "whom agreement with the workers whom gold has checked speaks for",
                private_names=True,
                only="filter.potentials",
            ),
            Output("judging_fits", "parameters of the consensus that judges", only="engine"),
            Output("start.json", "which run the consensus goes on from", only="consensus.go_on"),
            Output("start.npz", "where EM starts", private_names=True, only="consensus.go_on"),
        ),
        settings="filter",
        verdicts=(Verdict("crowd", "quality.json", late("workers", "crowd_verdict")),),
    ),
    Stage(
        "aggregate",
        "Turn the kept workers' labels into one label per task, and rank the tasks to label next.",
        late("consensus", "aggregate"),
        (
            Output(
                "consensus.parquet",
                "each task's label, confidence and posterior",
                private_names=True,
            ),
            Output(
                "consensus.json",
                "the consensus as a whole: confidence, ties, check against gold",
                private_names=True,
            ),
            Output(
                "class_cells.parquet",
                "the probability of each class of a task that somebody gave",
                private_names=True,
                only="input.several",
            ),
            Output("next_labels.parquet", "which tasks to label next", private_names=True),
            Output("label_plan.parquet", "whom to ask about which tasks", private_names=True),
            Output(
                "task_voices.parquet",
                "what a classifier of the features says of each task",
                private_names=True,
                only="task features",
            ),
            Output(
                "worker_voices.parquet",
                "how far each worker agrees with the labels that features joined",
                private_names=True,
                only="task features",
            ),
            Output(
                "near_duplicates.parquet",
                "tasks with nearly the same features",
                private_names=True,
                only="task features",
            ),
            Output(
                "topics.json",
                "concepts found in the tasks' texts, and what no class names",
                private_names=True,
                only="topics",
            ),
            Output(
                "task_concepts.parquet",
                "the concept of each task",
                private_names=True,
                only="topics",
            ),
            *(
                Output(name, about, private_names=tables, only="report.archetypes")
                for name, about, tables in (
                    ("archetypes.json", "kinds of workers and of tasks, with the evidence", False),
                    ("archetypes.parquet", "which worker is of which kind", True),
                    ("strata.parquet", "which task is in which stratum of features", True),
                )
            ),
            Output(
                "error_features.json",
                "which features go with errors on gold tasks",
                only="report.error_features",
            ),
            Output(
                "decision_images.json",
                "what the crowd goes by in each class, and what gold goes by",
                private_names=True,
                only="report.decision_images",
            ),
            Output(
                "psychometrics.json",
                "skill and carelessness of the workers shown",
                private_names=True,
                only="report.psychometric",
            ),
            Output(
                "psychometrics.parquet",
                "each worker's threshold and lapse rate, with intervals",
                private_names=True,
                only="report.psychometric",
            ),
            Output("class_counts.parquet", "exact class counts of each group", only="engine"),
            Output("other_fits", "parameters of other workers' consensus", only="engine"),
            Output(
                "fit.npz",
                "where the next run starts EM",
                private_names=True,
                only="consensus.go_on",
            ),
        ),
        settings="consensus",
        verdicts=(Verdict("consensus", "consensus.json", late("consensus", "consensus_verdict")),),
    ),
    Stage(
        "publish_proportions",
        "Release the class proportions of every labelled group, each at its price.",
        late("publication", "publish_proportions"),
        (
            Output(
                "proportions.parquet", "noisy counts and proportions, with their ledger entries"
            ),
            Output("proportions.json", "mechanism, price, noise, time; how far a plan is used up"),
            Output(
                "corrected_shares.parquet",
                "shares corrected by gold, with their covariance",
                only="privacy.correction_epsilon",
            ),
            Output("corrected_shares.json", "price, gold tasks and groups of the correction"),
        ),
        settings="privacy",
        verdicts=(
            Verdict("proportions", "proportions.json", late("publication", "proportions_verdict")),
            Verdict(
                "corrected shares",
                "corrected_shares.json",
                late("corrected_shares", "corrected_verdict"),
            ),
        ),
        holds_ledger=True,
    ),
    Stage(
        "estimate_ratios",
        "Estimate the class ratios of the groups without labels from what was released.",
        late("learning.class_ratios", "estimate_ratios"),
        (
            Output(
                "class_ratios.parquet",
                "class ratios of unlabelled groups, with intervals; they read features in the clear",
            ),
            Output("class_ratios.json", "method and exact error; whether the ratios may be shown"),
        ),
        verdicts=(
            Verdict(
                "class ratios", "class_ratios.json", late("learning.class_ratios", "ratios_verdict")
            ),
        ),
    ),
    Stage(
        "train_privately",
        "Train and tune a model under differential privacy, and release it with its training score.",
        late("learning.model", "train_privately"),
        (Output("model.json", "the model, with its ledger entry and exact accuracies"),),
        settings="model",
        verdicts=(Verdict("model", "model.json", late("learning.model", "model_verdict")),),
        holds_ledger=True,
    ),
    Stage(
        "ask_holdout",
        "Ask the reusable holdout about the model, and bound the model's error on new tasks.",
        late("learning.model", "ask_holdout"),
        (
            Output("gate.json", "what the holdout answered, and how often it can still refute"),
            Output("bounds.json", "upper bounds on the model's error"),
        ),
        settings="gate",
        verdicts=(
            Verdict("holdout", "gate.json", late("learning.model", "gate_verdict")),
            Verdict("error bound", "bounds.json", late("learning.model", "bound_verdict")),
        ),
        holds_ledger=True,
    ),
    Stage(
        "write_report",
        "State the account, and make the two reports from the run folder alone.",
        late("reporting", "write_report"),
        (
            Output("spend.json", "budget, spend and ledger entries of the data set"),
            Output("trend.json", "the campaign's runs side by side"),
            Output("report.html", "the internal report", private_names=True),
            Output("public.html", "the report that may be shown", public=True),
            Output("public", "the same releases as files for machines", public=True),
        ),
        settings="report",
        verdicts=(Verdict("privacy", "spend.json", late("reporting", "spend_verdict")),),
    ),
)
"""Every stage of a run, in the order in which they run."""


KEPT = (
    Output("ledger.sqlite", "budgets, entries, releases, the holdout's secret state"),
    Output("fingerprint.key", "the key of all digests of private data"),
    Output("groups-*.npz", "digests of the tasks that were counted, and their groups"),
    Output(
        "cohorts-*.npz", "digests of the tasks of a planned year, their cohorts, groups and uses"
    ),
    Output("groups.lock", "nothing; held while groups or cohorts are recorded"),
    Output(
        "last_failure.json",
        "why the newest run failed, in words that may name a worker, a task or a cell",
        private_names=True,
    ),
    Output("prefect", "Prefect's database and log of runs that it made by itself"),
)
"""What outlives runs, in the state folder."""

ELSEWHERE = (
    Output("tables and summary in Prefect", "what `public.html` holds", public=True),
    Output("event `crowdassay.gate.refused`", "the released status of the gate", public=True),
    Output(
        "event `crowdassay.budget.low`", "how much is spent, which grows as private data change"
    ),
    Output(
        "runs, progress and links in Prefect",
        "when a run was made, how long it took, whether data were new",
    ),
    Output(
        "terminal, `--json`, mail of cron", "the stages' lines, with exact accuracies and counts"
    ),
)
"""What a run says elsewhere than in its folder."""


def output_list() -> str:
    """Return the one list, in Markdown, of all that a run writes and prints: who may see what."""
    files = [(f"`{one.name}`", one) for one in outputs()]
    files += [(f"`state/{one.name}`", one) for one in KEPT]
    lines = ["| where | what | who may see it |", "|---|---|---|"]
    for seen, public in (("anybody", True), ("the team", False)):
        for where, one in [*files, *((one.name, one) for one in ELSEWHERE)]:
            if one.public is public:
                lines.append(f"| {where} | {one.about} | {seen} |")
    return "\n".join(lines) + "\n"


def outputs() -> Iterator[Output]:
    """Yield everything that a run may leave in its folder, the manifest first."""
    yield MANIFEST
    for stage in STAGES:
        yield from stage.outputs
