"""`slurm_site`: each contract test runs on the real cluster and on the practice cluster."""

import secrets
from collections.abc import Iterator

import pytest

from tests.contract.jobs import Jobs
from tests.contract.sites import Site, practice_site, real_site

SITE_PARAMS = [
    pytest.param("real", marks=pytest.mark.cluster),
    pytest.param("practice", marks=pytest.mark.xdist_group("contract-practice")),
]


@pytest.fixture(scope="session", params=SITE_PARAMS)
def slurm_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster with a logged-in student: ``real`` (OpenSSH and Slurm) or ``practice`` (labtui's own)."""
    if request.param == "real":
        running = request.getfixturevalue("cluster")
        running.repair()
        running.cancel_all()
        with real_site(running) as site:
            yield site
    else:
        with practice_site(tmp_path_factory.mktemp("practice")) as site:
            yield site


@pytest.fixture(scope="session")
def jobs(slurm_site: Site) -> Jobs:
    """A directory on the site with the contract's scripts."""
    place = Jobs(slurm_site, f"{slurm_site.scratch}/contract-{secrets.token_hex(4)}")
    place.prepare()
    return place


@pytest.fixture(scope="session")
def limited_job(jobs: Jobs) -> str:
    """A job that will exceed its limit of one minute; submitted early and used late."""
    return jobs.submit(f"{jobs.cpu} -t 1 -J limited --comment=labtui:limited long.sh")


@pytest.fixture(scope="session", autouse=True)
def _early(limited_job: str) -> None:
    """Start `limited_job` early, so that its minute passes while other tests run."""
