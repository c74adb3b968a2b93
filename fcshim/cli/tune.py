"""`fcshim serve --tune`: the doctor's quick race before the proxy starts, for a model about which nothing is known yet.

Rule: tuning never keeps the proxy from starting. Ctrl-C ends it, and the proxy starts with what is known so far.
"""

import asyncio
import sys
from datetime import UTC, datetime

from rich.console import Console

from fcshim.cli.doctor_report import DoctorReport, PlainReport, TerminalReport
from fcshim.cli.text import write_error
from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.config import Config
from fcshim.config.scoped import scoped_config
from fcshim.errors import UpstreamError
from fcshim.evaluate.doctor import Doctor, DoctorOptions
from fcshim.upstream import Upstream
from fcshim.upstream.endpoint import timeouts_of
from fcshim.upstream.measured import load_measured
from fcshim.upstream.model_identity import identify_listed, list_served


def tune(config: Config) -> None:
    """Find the settings of the model behind each upstream, unless they are known; the progress goes to stderr."""
    scoped: list[Config] = [scoped_config(config, name) for name in config.upstreams]
    for each in scoped or [config]:
        try:
            _tune_upstream(each)
        except UpstreamError as error:
            write_error(f"fcshim: --tune: {each.upstream}: {error.message}; serving anyway")


def _tune_upstream(config: Config) -> None:
    needed, reason = asyncio.run(_needs_tuning(config))
    if not needed:
        write_error(f"fcshim: --tune: {config.upstream}: {reason}")
        return
    report: DoctorReport = PlainReport(write_error)
    if sys.stderr.isatty():
        report = TerminalReport(Console(stderr=True, highlight=False))
    doctor = Doctor(config, DoctorOptions(api=config.upstream_api, quick=True), report.callbacks)
    try:
        with report.show_activity():
            asyncio.run(doctor.run())
    except KeyboardInterrupt:
        write_error("fcshim: --tune: interrupted; serving with what is known so far (Ctrl-C again stops the server)")
    doctor.keep(datetime.now(UTC).date().isoformat())
    if doctor.connected:
        diagnosis = doctor.diagnosis()
        write_error(f"fcshim: --tune: {diagnosis.model}: {diagnosis.reason or 'no settings made a correct call'}")


async def _needs_tuning(config: Config) -> tuple[bool, str]:
    """Return whether the upstream's model is to be tuned, and if not, why. Raises `UpstreamError`."""
    key, timeouts = config.upstream_key, timeouts_of(config)
    async with Upstream(config.upstream, key=key, timeouts=timeouts, kind=UPSTREAMS[config.upstream_api]) as upstream:
        served = (await list_served(upstream)).models
        if len(served) != 1:
            found = f"{len(served)} models" if served else "no list of models"
            return False, f"{found}: not tuned; fcshim doctor --model NAME tunes one"
        known = load_measured((await identify_listed(upstream, served[0])).key)
    if known is not None and known.complete and known.settings:
        return False, f"known since {known.date}: {known.reason}"
    return True, ""
