"""What a verification found."""

from dataclasses import dataclass, field

from aclgraph.errors import VerifyError


@dataclass(frozen=True)
class Finding:
    """One difference.

    Attributes:
        kind: "graph" replay and eager run differ on the same inputs; "padding" padded rows change
            real results; "baked" a host scalar, "rebound" a tensor, "path" an operator is another
            than at capture; "alias" an output is memory that the step or its caller writes;
            "spoilt" the step writes into the padding of an input; "idle" a replay without requests
            changes something.
        bucket: tokens of the graph. num_tokens: tokens of the batch.
        subject: the output, state or input concerned.
        message: what was seen, and what to do.
    """

    kind: str
    bucket: int
    num_tokens: int
    subject: str
    message: str

    def __str__(self) -> str:
        return (
            f"[{self.kind}] bucket {self.bucket}, {self.num_tokens} tokens: {self.subject}: "
            f"{self.message}"
        )


@dataclass
class VerifyReport:
    """All findings of a verification, and how many cases were run."""

    findings: list[Finding] = field(default_factory=list)
    cases: int = 0

    @property
    def ok(self) -> bool:
        return not self.findings

    def raise_for_findings(self) -> None:
        """Raises VerifyError with the whole report if anything was found."""
        if self.findings:
            raise VerifyError(str(self))

    def __str__(self) -> str:
        head = f"verify: {self.cases} cases, {len(self.findings)} findings"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])
