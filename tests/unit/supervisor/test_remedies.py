"""A profile with a mistake is told with the mistake's place, and what to do about it."""

from __future__ import annotations

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.supervisor.remedies import describe


def test_the_place_of_a_profiles_mistake_is_told_in_both_languages() -> None:
    place = "$.filesystem.mounts[0].mode"
    told = describe(ProfileError("'mode' is one of ro, overlay, rw.", place))
    assert place in told["cause_en"]
    assert place in told["cause_zh"]
    assert "Correct the profile's file" in told["remedy_en"]
    assert "doctor" not in told["remedy_en"]


def test_a_mistake_without_a_place_names_none() -> None:
    told = describe(ProfileError("There is no profile 'x'.", "$", "Profiles: strict, web."))
    assert told["cause_en"] == "The profile has a mistake: There is no profile 'x'."
    assert told["remedy_en"].startswith("Profiles: strict, web. ")
