"""Tokens as text. The independent truth is the tokenizer's own decoding of all tokens at once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

from specviz.lm.text import StreamDecoder, TokenText, encode_prompt, eos_ids
from tests.models import TOKENIZER_SIZE, spm_tokenizer, tiny_tokenizer

BYTE_LEVEL = tiny_tokenizer()
BYTE_LEVEL.add_tokens([AddedToken("<tool call \u65e5>", special=False)])
PIECES = spm_tokenizer()
TOKENIZERS = {"byte_level": BYTE_LEVEL, "pieces": PIECES}
ASTRONAUT = "\U0001f469\u200d\U0001f680"
HARD_TEXT = f"{ASTRONAUT} \u65e5\u672c\u8a9e \u00e9 A\u0301 \u202eabc  two\n"
SETTINGS = settings(max_examples=150, deadline=None)


def whole(tokenizer, tokens):
    return tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def plain_ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def streamed(tokenizer, tokens, stops=()):
    decoder = StreamDecoder(tokenizer, stops)
    parts = [decoder.push([token]) for token in tokens]
    parts.append(decoder.finish())
    assert "".join(parts) == decoder.text
    return decoder


@pytest.fixture(params=TOKENIZERS, ids=str)
def tokenizer(request):
    return TOKENIZERS[request.param]


class TestStream:
    @SETTINGS
    @given(st.lists(st.integers(0, TOKENIZER_SIZE + 5), max_size=40))
    def test_random_bytes_add_up_to_the_final_decode(self, tokens):
        """Includes ids the tokenizer does not know: the padding of a head."""
        assert streamed(BYTE_LEVEL, tokens).text == whole(BYTE_LEVEL, tokens)

    @SETTINGS
    @given(st.lists(st.integers(0, len(PIECES) - 1), max_size=40))
    def test_random_pieces_add_up_to_the_final_decode(self, tokens):
        assert streamed(PIECES, tokens).text == whole(PIECES, tokens)

    @SETTINGS
    @given(st.lists(st.one_of(st.sampled_from(plain_ids(PIECES, HARD_TEXT)), st.integers(0, 258))))
    def test_runs_of_byte_pieces_add_up_to_the_final_decode(self, tokens):
        """One bad byte turns its whole run into U+FFFD, so a run may not be shown piece by piece."""
        assert streamed(PIECES, tokens).text == whole(PIECES, tokens)

    @SETTINGS
    @given(st.text(max_size=30), st.sampled_from(sorted(TOKENIZERS)))
    def test_any_text_comes_back(self, text, name):
        tokens = plain_ids(TOKENIZERS[name], text)
        assert streamed(TOKENIZERS[name], tokens).text == whole(TOKENIZERS[name], tokens)

    def test_no_broken_character_is_ever_shown(self, tokenizer):
        """H01: decoding token by token shows U+FFFD in live text."""
        decoder = StreamDecoder(tokenizer)
        tokens = plain_ids(tokenizer, HARD_TEXT)
        shown = [decoder.push([token]) for token in tokens] + [decoder.finish()]
        assert not any("\ufffd" in text for text in shown)
        assert "".join(shown) == whole(tokenizer, tokens)

    @pytest.mark.parametrize("budget", range(1, 9))
    def test_budget_ends_inside_a_character(self, tokenizer, budget):
        """H02: the rest shows once, at the end, and nothing hangs or raises."""
        tokens = plain_ids(tokenizer, ASTRONAUT)[:budget]
        decoder = StreamDecoder(tokenizer)
        live = decoder.push(tokens)
        assert "\ufffd" not in live
        assert live + decoder.finish() == whole(tokenizer, tokens)
        assert decoder.finish() == ""

    def test_half_a_character_then_a_word(self):
        """H03: a flush rule that looks at the next token's space loses or doubles bytes."""
        half = plain_ids(BYTE_LEVEL, "\U0001f469")[:2]
        word = plain_ids(BYTE_LEVEL, " the")
        lone = [BYTE_LEVEL.convert_tokens_to_ids("\u00ff")]
        for tokens in (half + word, lone, lone + word, half + half + lone + word):
            assert streamed(BYTE_LEVEL, tokens).text == whole(BYTE_LEVEL, tokens)

    def test_special_tokens_are_skipped_inside_a_character(self):
        first, *rest = plain_ids(BYTE_LEVEL, "\u65e5")
        assert streamed(BYTE_LEVEL, [first, 1, *rest, 2]).text == "\u65e5"

    def test_cost_of_a_token_does_not_grow_with_the_text(self, tokenizer, monkeypatch):
        """Decoding everything anew at each token makes a long answer slower and slower."""
        tokens = TokenText(tokenizer)
        windows = []
        decode = tokens.decode
        monkeypatch.setattr(tokens, "decode", lambda ids: windows.append(len(ids)) or decode(ids))
        decoder = StreamDecoder(tokens, ["never said"])
        for token in plain_ids(tokenizer, "and the end of it all ") * 50:
            decoder.push([token])
        assert decoder.text.count("end") == 50
        assert max(windows, default=0) <= 2


class TestStopStrings:
    @SETTINGS
    @given(
        st.sampled_from(sorted(TOKENIZERS)),
        st.text("abc \u65e5", min_size=1, max_size=30),
        st.lists(st.text("abc \u65e5", min_size=1, max_size=4), min_size=1, max_size=3),
    )
    def test_stream_ends_before_the_first_completed_stop(self, name, text, stops):
        """The truth: after each token, look for the stops in the decoding of all tokens so far."""
        tokenizer = TOKENIZERS[name]
        tokens = plain_ids(tokenizer, text)
        expected, stopped_at = whole(tokenizer, tokens), None
        for count in range(1, len(tokens) + 1):
            so_far = whole(tokenizer, tokens[:count])
            starts = [so_far.find(stop) for stop in stops if stop in so_far]
            if starts:
                expected, stopped_at = so_far[: min(starts)], count
                break
        decoder = streamed(tokenizer, tokens, stops)
        assert decoder.text == expected
        assert decoder.stopped_at == stopped_at

    def test_a_beginning_of_a_stop_is_held_back_until_it_is_none(self, tokenizer):
        decoder = StreamDecoder(tokenizer, ["Once more"])
        assert decoder.push(plain_ids(tokenizer, "say Once")) == "say "
        assert decoder.push(plain_ids(tokenizer, " upon")) == "Once upon"
        assert decoder.stopped_at is None

    def test_held_text_is_given_back_at_the_end(self, tokenizer):
        decoder = StreamDecoder(tokenizer, ["dog."])
        tokens = plain_ids(tokenizer, "lazy dog")
        assert decoder.push(tokens) + decoder.finish() == "lazy dog"

    def test_tokens_after_a_stop_are_ignored(self, tokenizer):
        tokens = plain_ids(tokenizer, "one, two, three")
        decoder = StreamDecoder(tokenizer, [", two"])
        assert decoder.push(tokens) == "one"
        assert decoder.push(tokens) == ""
        assert decoder.finish() == ""
        assert decoder.stopped_at < len(tokens)


class TestPieces:
    def test_partial_bytes_show_as_bytes(self):
        """H01: a chip of half an emoji is no broken glyph."""
        pieces = TokenText(BYTE_LEVEL)
        tokens = plain_ids(BYTE_LEVEL, "\U0001f469")
        assert "".join(map(pieces.piece, tokens)) == "<0xF0><0x9F><0x91><0xA9>"

    def test_a_byte_beside_a_whole_character(self):
        tokenizer = tiny_tokenizer()
        tokenizer.add_tokens([AddedToken("\u0120\u00e6a", special=False)])  # bytes 20 E6 61
        assert TokenText(tokenizer).piece(TOKENIZER_SIZE) == " <0xE6>a"

    def test_byte_pieces_of_sentencepiece(self):
        pieces = TokenText(PIECES)
        ids = [PIECES.convert_tokens_to_ids(name) for name in ("<0xE6>", "<0x41>", "<0x0A>")]
        assert [pieces.piece(token) for token in ids] == ["<0xE6>", "A", "\n"]

    def test_spaces_are_the_tokens_own(self):
        space_the = PIECES.convert_tokens_to_ids("\u2581the")
        assert TokenText(PIECES).piece(space_the) == " the"
        assert TokenText(BYTE_LEVEL).piece(plain_ids(BYTE_LEVEL, " the")[0]) == " the"

    def test_special_and_unknown_tokens(self):
        pieces = TokenText(BYTE_LEVEL)
        assert pieces.piece(2) == "<|im_end|>"
        assert pieces.piece(TOKENIZER_SIZE) == "<tool call \u65e5>"
        assert pieces.piece(TOKENIZER_SIZE + 1) == f"<id {TOKENIZER_SIZE + 1}>"
        assert pieces.num_known_tokens == TOKENIZER_SIZE + 1

    def test_every_token_has_a_piece(self, tokenizer):
        pieces = TokenText(tokenizer)
        for token in range(len(tokenizer)):
            assert pieces.piece(token), token
            assert "\ufffd" not in pieces.piece(token)

    @SETTINGS
    @given(st.text(max_size=20))
    def test_pieces_of_ascii_add_up(self, text):
        tokens = plain_ids(BYTE_LEVEL, text)
        joined = "".join(map(TokenText(BYTE_LEVEL).piece, tokens))
        assert joined == text or not text.isascii()


class TestPrompts:
    def test_chat_prompt_opens_the_answer(self):
        tokenizer = tiny_tokenizer()
        text = tokenizer.decode(encode_prompt(tokenizer, "Say hi.", True))
        assert text == "<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n"

    def test_no_chat_template(self):
        with pytest.raises(ValueError, match="no chat template.*raw"):
            encode_prompt(tiny_tokenizer(chat=False), "hi", True)

    def test_template_that_refuses(self):
        tokenizer = tiny_tokenizer()
        tokenizer.chat_template = "{{ raise_exception('a system prompt is needed') }}"
        with pytest.raises(ValueError, match="a system prompt is needed"):
            encode_prompt(tokenizer, "hi", True)

    def test_raw_prompt_has_the_tokenizers_own_specials(self):
        """G07: a second way to tokenise would forget the BOS."""
        assert encode_prompt(PIECES, "the", False) == PIECES.encode("the")
        assert encode_prompt(PIECES, "the", False)[0] == PIECES.bos_token_id
        assert encode_prompt(BYTE_LEVEL, "the", False) == plain_ids(BYTE_LEVEL, "the")

    @pytest.mark.parametrize("prompt", ["", "   ", "\n", "\u200b"])
    def test_blank_prompts_give_at_least_one_token(self, prompt):
        """H05: zero ids crash the model with a reshape error."""
        assert encode_prompt(BYTE_LEVEL, prompt, False)
        assert encode_prompt(BYTE_LEVEL, prompt, True)
        assert encode_prompt(BYTE_LEVEL, "", False) == [BYTE_LEVEL.bos_token_id]

    def test_no_token_and_no_bos(self):
        tokenizer = tiny_tokenizer()
        tokenizer.bos_token = None
        with pytest.raises(ValueError, match="empty"):
            encode_prompt(tokenizer, "", False)

    def test_half_a_surrogate_pair(self):
        with pytest.raises(ValueError, match="half a character at position 2"):
            encode_prompt(BYTE_LEVEL, "a\ud83d", False)


@pytest.mark.parametrize(
    ("saved", "expected"), [(7, {2, 7}), ([2, 7], {2, 7}), (None, {2}), ([], {2})]
)
def test_eos_ids(saved, expected):
    """D05: the saved value may be one id, a list, or nothing."""
    assert eos_ids(BYTE_LEVEL, SimpleNamespace(eos_token_id=saved)) == expected


def test_no_eos_at_all():
    assert eos_ids(SimpleNamespace(eos_token_id=None), None) == frozenset()
