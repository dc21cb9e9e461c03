"""The trials of other people's DNS programs have run since the files that they concern changed."""

from tests.dns_behaviour import digest


def test_the_trials_of_dns_programs_are_current() -> None:
    now, kept = digest.digests(), digest.kept()
    changed = sorted(path for path in now.keys() | kept.keys() if now.get(path) != kept.get(path))
    assert not changed, (
        f"changed since the trials of DNS programs: {changed}; run make test-servers"
    )


def test_the_trials_concern_profiles_and_captures() -> None:
    concerned = digest.digests()
    assert "python/narrows/dns_profiles/servers/nsd.toml" in concerned
    assert "tests/dns_behaviour/captures/nsd-tls.json" in concerned
    assert "tests/dns_behaviour/lookup.c" in concerned
