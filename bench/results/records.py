"""What a measured table is, apart from how it was measured: captions, columns, cells, charts, and
the facts that figures need. It is kept as JSON, and pages are written from it."""

import json
from dataclasses import asdict, dataclass, field

from results.program import write_text


@dataclass
class Part:
    """A table of the page. A cell is text, or [figure, standard error or None]."""

    caption: str
    columns: list
    rows: list
    best: str = ""  # "most" or "least": which figure of a column stands out
    digits: int = 1


@dataclass
class Chart:
    """Lines over evaluations or calls: {label: [[x, y], ...]}."""

    name: str
    across: str
    upwards: str
    series: dict
    logarithmic: str = ""  # "x", "y" or both


@dataclass
class Record:
    """A table as it was measured."""

    name: str
    title: str
    group: str  # the heading it is under
    about: str
    parts: list
    charts: list = field(default_factory=list)
    quoted: str = ""  # what a command printed, word for word
    commands: list = field(default_factory=list)
    version: str = ""
    made: str = ""
    hardware: str = ""
    seconds: float = 0

    def write(self, folder):
        write_text(folder / f"{self.name}.json", json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def read(path):
        record = Record(**json.loads(path.read_text(encoding="utf-8")))
        record.parts = [Part(**part) for part in record.parts]
        record.charts = [Chart(**chart) for chart in record.charts]
        return record
