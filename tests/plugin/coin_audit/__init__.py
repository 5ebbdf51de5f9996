"""An audit in a package of its own: does a model say yes more often to one group?"""

from markedness.audits.base import AuditSpec
from markedness.records import CorpusColumns, columns

SPEC = AuditSpec(
    name="coin", package=__name__, corpus=CorpusColumns(required=("text",)), table="answers", cluster="prompt_id",
    headline=("yes_gap.marked",), prompts_ref="stages:prompts", clean_ref="stages:clean",
    featurize_ref="stages:featurize", evaluate_ref="stages:evaluate", rule_ref="stages:rule",
    features={"answers": columns(text="prompt_id group", number="answer")}, params_refs=("stages:Params",) * 4,
)  # fmt: skip
