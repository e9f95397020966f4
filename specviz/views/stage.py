"""StageFeed: folds session events into the items that the stage (`assets/stage.js`) paints.

The same fold serves a live run and a recorded one, so both give the same items in the same
order. Every fact of decoding that the page shows is found here, from `trace` and `metrics`;
the browser lays out, animates and formats, and works out nothing. It keeps running sums: a
round costs the same however long the run. This is not the page (`specviz.ui`), and it draws
nothing.

The page wraps items in envelopes and sends each as one JSON string, written with
`json.dumps(envelope, ensure_ascii=True, allow_nan=False)`:

    {"v": 1, "run": "<id>", "seq": n, "source": "live" | "recorded", "label": "...", "items": [...]}

`seq` starts at 0 and counts envelopes of that run. The stage drops repeats, holds back what
comes early and says so when one stays missing. A run id it has not seen replaces the picture
as soon as that run's "start" item comes; until then (progress) the old picture stays usable.
A run that has been replaced is not listened to again. `label` names the run for people.

In the browser (`assets/stage.js` is a plain script: function definitions, no imports):

    const stage = SpecVizStage.mount(rootElement);
    stage.receive(envelopeString);     // any number of times
    stage.pending("Waiting in line");  // Run was pressed, nothing has come yet
    stage.interrupted("Stopped.");     // Stop was pressed or the connection was lost
    stage.destroy();                   // frees its listeners; the page seldom needs it

Items, told apart by "kind" (times in seconds on the lane's own clock, prefill excluded):

    progress  stage, message, done, total
    start     created, target, device, dtype, quantisation, source, path, machine, prompt (cleaned
              text), num_prompt_tokens, prefill_seconds, sampling (words), seed, max_new_tokens
    lane      lane, name, title, description, knobs (words), is_plain, is_lossy, prefill_seconds
    round     lane, round (from 1), at [start, drafted, verified, end], tree, next, new, prefix,
              rows_written, rows_kept, num_drafted, num_accepted, total, versus, sentence
    lane_end  lane, reason, sentence
    end       wall_seconds, versus
    failure   message

    tree      width, height, lookahead_y (first line of the lookahead block, null without),
              x, y, depth, parent, text, status, sees (rows that each row may attend to),
              draft_prob, target_prob, trials {row: {threshold, draw, is_accepted}}
    next      the target's own token: text, kind "bonus" | "recovered" | "plain", x, y, parent
    new       text and origin of each committed token; an origin is a depth (drafted) or a kind
    total     num_tokens, num_rounds, tau, tokens_per_second, num_drafted, num_accepted,
              acceptance_rate, seconds {draft, verify, commit}
    versus    {lane: {speedup, rho, agreement}} against the plain lane, for every lane that this
              event changed; agreement is {state, num_tokens, top_two_gap, sentence}
"""
