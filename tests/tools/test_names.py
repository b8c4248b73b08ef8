"""Names of tools, similar names, and names of secrets."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.errors import ToolError
from archytas_nb.tools.names import RESERVED, is_secret, legal_name
from archytas_nb.words import did_you_mean, nearest

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@given(
    st.from_regex(r"[a-zA-Z0-9_.-]{1,64}", fullmatch=True).filter(
        lambda name: name.replace(".", "_") not in RESERVED
    )
)
def test_a_name_of_legal_characters_and_dots_becomes_legal(name):
    wire = legal_name(name)
    assert LEGAL.fullmatch(wire)
    assert wire == name.replace(".", "_")


@given(st.text(max_size=70).filter(lambda name: not LEGAL.fullmatch(name.replace(".", "_"))))
def test_rejects_any_other_name_and_says_how_to_choose_one(name):
    with pytest.raises(ToolError, match=r"@tool\(name="):
        legal_name(name)


def test_rejects_a_name_that_is_not_a_string():
    with pytest.raises(ToolError, match="3 is not a valid tool name"):
        legal_name(3)


def test_the_most_similar_name_is_found_ignoring_case():
    assert nearest("Color", ["colour", "size"]) == "colour"
    assert nearest("DF", ["df"]) == "df"
    assert nearest("xyz", ["colour"]) is None
    assert nearest("x", []) is None
    assert did_you_mean("colr", ["color"]) == ", did you mean 'color'?"
    assert did_you_mean("q", ["color"]) == ""


SECRETS = (
    # what names nothing else, wherever it stands
    "password passwords PASSWORD db_password DB_PASSWORD password_prod PASSWORD_2 my_password_list "
    "PGPASSWORD dbPassword userPasswd passphrase passcode pwd pwds ftp_pwd FTP_PWD dbpwd "
    "secret secrets client_secret clientSecret SECRET_SAUCE OPENAI_WEBHOOK_SECRET secret_prod "
    "credential credentials DB_CREDENTIALS google_credentials_dev creds aws_creds credsProd "
    # keys and tokens
    "key KEY api_key api_keys API_KEYS apikey apikeys apiKey apiKeys APIkey APIKey OPENAI_APIKEY "
    "OpenAIKey openai_key key_2 API_KEY_2 api_key_prod API_KEY_STAGING apiKeyOfAnn api-key "
    "access_keys private_key private_keys AWS_ACCESS_KEY_ID aws_key_id SECRET_KEY_BASE "
    "AWS_SECRET_ACCESS_KEY STRIPE_KEY_LIVE ENCRYPTION_KEY primary_key "
    "token TOKEN HF_TOKEN githubtoken accessToken access_tokens ACCESS_TOKEN_OLD auth_tokens "
    "OPENAI_ACCESS_TOKEN bearerToken refresh_tokens token1 session_tokens jwt authorization auth "
    "npm_auth basicAuth "
    # short words after another one
    "GITHUB_PAT DB_PASS DB_PW smtpPass SESSION_COOKIE session_cookies"
)
NO_SECRETS = (
    # other words that contain these letters
    "keyboard KEYBOARD monkey MONKEY turkey hockey keys keynote tokenizer tokenize compass COMPASS "
    "bypass path PATH pattern pat passengers passing_yards secretary sacred incredible author "
    "authors authority cookie oauth x SPARK_HOME "
    # data that is called keys and tokens
    "tokens input_tokens prompt_tokens keys_of_row sort_keys Tokens "
    # a property of a secret, or where it is kept
    "token_count tokenCount max_tokens maxTokens max_token n_tokens token_type password_length "
    "passwordLength key_column key_columns has_password is_secret isSecret needsToken "
    "password_policy secret_name password_file CREDENTIALS_DIRECTORY token_expiry api_key_name "
    "key_error api_key_errors"
)


@pytest.mark.parametrize("name", SECRETS.split())
def test_a_name_of_a_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", NO_SECRETS.split())
def test_a_name_that_is_not_one_of_a_secret(name: str) -> None:
    assert not is_secret(name)


@given(
    st.lists(
        st.sampled_from(
            [
                *"abcxyz",
                "my",
                "key",
                "keys",
                "api",
                "token",
                "secret",
                "pwd",
                "password",
                "count",
                "of",
                "prod",
                "is",
            ]
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 99),
)
def test_the_spelling_of_a_name_does_not_decide_whether_it_is_one_of_a_secret(
    words: list[str], number: int
) -> None:
    snake = "_".join(words)
    spellings = [snake.upper(), "-".join(words), f"{snake}_{number}", f"{snake}{number}"]
    assert {is_secret(each) for each in spellings} == {is_secret(snake)}
    camel = words[0] + "".join(each.title() for each in words[1:])
    assert is_secret(camel) or not is_secret(snake)
