"""What networks share: the loss against float64, and which place a rank is asked at."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from specviz.drafters.training import (
    CHUNK_ROWS,
    NUM_RANKS,
    DraftVocab,
    TrainBatch,
    greedy_ranks,
    load_named,
    ranks_of,
    soft_cross_entropy,
    vocab_tensors,
)
from tests.drafters.cyclic import DRAFT_IDS, frozen_target, random_batch


def logits_and_probs(rows: int, num_probs: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(3)
    logits = 4 * torch.randn(rows, 50, generator=random)
    return logits, torch.softmax(4 * torch.randn(num_probs, 50, generator=random), dim=-1)


@pytest.mark.parametrize("rows", [1, CHUNK_ROWS, 2 * CHUNK_ROWS + 5])
def test_the_loss_and_its_gradient_are_those_of_float64(rows: int) -> None:
    logits, probs = logits_and_probs(rows, 7)
    at = torch.arange(rows) * 5 % 7  # several rows read one answer, in no order
    weights = torch.linspace(0.1, 2.0, rows)
    exact = logits.double().requires_grad_()
    wanted = -(probs[at].double() * torch.log_softmax(exact, dim=-1)).sum(-1)
    (wanted * weights).sum().backward()
    given = logits.clone().requires_grad_()
    found = soft_cross_entropy(given, probs, at)
    (found * weights).sum().backward()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-6)
    torch.testing.assert_close(given.grad.double(), exact.grad, atol=1e-6, rtol=1e-5)  # type: ignore[union-attr]


def test_without_places_rows_belong_to_each_other_in_order() -> None:
    logits, probs = logits_and_probs(9, 9)
    torch.testing.assert_close(
        soft_cross_entropy(logits, probs), soft_cross_entropy(logits, probs, torch.arange(9))
    )


def test_under_autocast_the_loss_keeps_its_digits() -> None:
    """The agreement of p and q was once rounded to bfloat16: losses were off by several percent."""
    logits, probs = logits_and_probs(70, 70)
    logits = (10 * logits).bfloat16()
    wanted = -(probs.double() * torch.log_softmax(logits.double(), dim=-1)).sum(-1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = soft_cross_entropy(logits, probs)
    torch.testing.assert_close(found.double(), wanted, atol=1e-4, rtol=1e-5)


def test_no_rows_have_no_loss() -> None:
    assert soft_cross_entropy(
        torch.zeros(0, 5), torch.zeros(3, 5), torch.zeros(0).long()
    ).shape == (0,)


def test_ranks_count_what_stands_before() -> None:
    logits = torch.arange(30.0).expand(4, -1)  # the last id is first
    assert ranks_of(logits, torch.tensor([29, 27, 3, -1])).tolist() == [0, 2, NUM_RANKS, NUM_RANKS]


def by_hand(tokens: list[int], says: list[int], first_answer: int) -> tuple[TrainBatch, DraftVocab]:
    """A sequence; `says` is what the target finds likeliest after each of its tokens."""
    frozen = frozen_target()
    states = torch.stack([torch.linalg.pinv(frozen.head)[:, token] for token in says])
    length = len(tokens)
    answer = (torch.arange(length) >= first_answer)[None]
    batch = TrainBatch(torch.tensor([tokens]), answer, states[None], states[None])
    return batch, DraftVocab(frozen)


def always(*favourites: int) -> Callable[[Tensor], Tensor]:
    """Logits that list these ids first, everywhere."""
    line = torch.zeros(len(DRAFT_IDS))
    for place, token in enumerate(favourites):
        line[DRAFT_IDS.index(token)] = 100.0 - place
    return lambda rows: line.expand(int(rows.sum()), -1)


def test_ranks_of_a_case_by_hand() -> None:
    # Tokens 0 and 1 are the prompt. The target says 4 where token 3 is 8: not greedy there.
    tokens = [3, 17, 4, 8, 11, 5, 20]
    says = [9, 4, 4, 11, 5, 6, 2]
    batch, vocab = by_hand(tokens, says, first_answer=2)
    depths = [always(4, 11, 5), always(5, 4), always(11)]
    found = greedy_ranks(batch, vocab, frozen_target().head, depths, first=1)
    # Row t at depth d is asked what the target says at t + 1 + d. It writes tokens 2 to 6, so
    # places 1 to 5 count; starts are rows 0 to 4.
    assert found.tolist() == [
        [0, 1, -1],  # says[1] = 4, says[2] = 4; then token 3 was not what it said
        [0, -1, -1],  # says[2] = 4, and token 3 is 8
        [1, 0, NUM_RANKS],  # says[3] = 11, says[4] = 5; says[5] = 6 is outside the vocabulary
        [2, NUM_RANKS, -1],  # says[4] = 5, says[5] = 6; place 6 is behind the end
        [NUM_RANKS, -1, -1],
    ]


def test_a_draft_model_is_asked_at_its_own_row() -> None:
    batch, vocab = by_hand([3, 17, 4, 8], [9, 4, 4, 11], first_answer=2)
    found = greedy_ranks(batch, vocab, frozen_target().head, [always(4), always(11, 4)], first=0)
    assert found.tolist() == [[0, 1], [0, -1]]  # rows 1 and 2; token 3 is not what it said


def test_a_text_shorter_than_the_draft_has_nothing_behind_its_end() -> None:
    """The shift past the end once raised an error about shapes."""
    batch, vocab = by_hand([3, 17, 4], [9, 4, 11], first_answer=1)
    depths = [always(4)] * 5
    found = greedy_ranks(batch, vocab, frozen_target().head, depths, first=1)
    assert found.tolist() == [[0, -1, -1, -1, -1]]


def test_answers_are_found_at_every_distance() -> None:
    batch = random_batch(frozen_target())  # answers: tokens 2 to 8 of row 0, 4 to 6 of row 1
    answers = DraftVocab(frozen_target()).answers(batch)
    assert answers.places.nonzero().tolist() == [[0, t] for t in range(1, 8)] + [
        [1, t] for t in range(3, 6)
    ]
    rows, at = answers.after(2)
    assert rows.nonzero().tolist() == [[0, t] for t in range(6)] + [[1, t] for t in range(1, 4)]
    wanted = [(0, t + 2) for t in range(6)] + [(1, t + 2) for t in range(1, 4)]
    places = [tuple(place) for place in answers.places.nonzero().tolist()]
    assert at.tolist() == [places.index(place) for place in wanted]
    rows, at = answers.after(20)
    assert not rows.any()
    assert len(at) == 0


def test_the_draft_vocabulary_as_it_is_stored() -> None:
    vocab = DraftVocab(frozen_target())
    stored = vocab_tensors(vocab)
    assert (torch.arange(len(DRAFT_IDS)) + stored["d2t"]).tolist() == list(DRAFT_IDS)
    assert stored["t2d"].nonzero()[:, 0].tolist() == list(DRAFT_IDS)
    normed = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
    whole = torch.softmax(normed @ frozen_target().head.T, dim=-1)[:, list(DRAFT_IDS)]
    torch.testing.assert_close(vocab.target_probs(normed), whole / whole.sum(-1, keepdim=True))


def test_published_tensors_are_taken_over_or_refused_in_a_sentence() -> None:
    """A published EAGLE-1 knows no draft vocabulary and brings the target's embedding along."""
    vocab, net = DraftVocab(frozen_target()), nn.Linear(3, 2, bias=False)
    weight = torch.ones(2, 3)
    load_named(net, {"weight": weight, "embed_tokens.weight": torch.zeros(9, 3)}, vocab)
    assert torch.equal(net.weight, weight)
    load_named(net, {"weight": 2 * weight, "d2t": vocab.d2t}, vocab)
    assert torch.equal(net.weight, 2 * weight)
    for tensors, sentence in (
        ({"weight": weight, "d2t": vocab.d2t + 1}, "drafts from another vocabulary"),
        ({"weight": torch.ones(2, 4)}, r"weight is \(2, 4\) in it, and \(2, 3\) here\.$"),
        ({"weight": weight, "bias": torch.ones(2)}, r"bias is \(2,\) in it, and missing here\.$"),
        ({}, r"weight is missing in it, and \(2, 3\) here\.$"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load_named(net, tensors, vocab)
    assert torch.equal(net.weight, 2 * weight)
