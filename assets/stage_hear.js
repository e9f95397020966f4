// Hears envelopes: drops what is a repeat or of an older run, holds back what comes early, and adds
// the rest to the run it is of. What is to be said or shown is told to `told`.

const SpecVizHear = (function () {
  const { newRun, addItem } = SpecVizRun;

  // `told` is {started(run), notice(...), fail(message, kind), complete()}.
  function newEar(told) {
    const retired = new Set();
    const aside = new Map(); // runs that were heard of and have not begun, behind another that is heard
    let incoming = null;
    let isAwaited = false; // a run was asked for and has not begun: what is said of it stays

    function receive(text) {
      const envelope = JSON.parse(text);
      if (envelope.v !== 1) {
        told.fail(["stage.too_old", {}]);
        return null;
      }
      if (retired.has(envelope.run)) return incoming;
      if (!incoming || incoming.id !== envelope.run) turnTo(envelope);
      if (envelope.seq >= incoming.nextSeq) incoming.held.set(envelope.seq, envelope);
      while (incoming.held.has(incoming.nextSeq)) {
        const next = incoming.held.get(incoming.nextSeq);
        incoming.held.delete(incoming.nextSeq);
        incoming.nextSeq += 1;
        next.items.forEach(take);
        if (next.last) {
          incoming.isEnded = true;
          incoming.version += 1;
        }
      }
      if (incoming.held.size) told.fail(["stage.gap_part", { part: incoming.nextSeq + 1 }], "gap");
      else told.complete();
      return incoming;
    }

    // A run that waits may be left for another, and comes back; one that has begun does not.
    function turnTo(envelope) {
      if (incoming && incoming.start) retired.add(incoming.id);
      else if (incoming) aside.set(incoming.id, incoming);
      incoming = aside.get(envelope.run) || newRun(envelope);
      aside.delete(envelope.run);
      told.fail("");
    }

    function take(item) {
      if (item.kind === "progress") return told.notice(item.message, item.done, item.total, item.stage);
      if (item.kind === "failure") {
        quieten();
        return told.fail(item.message);
      }
      addItem(incoming, item);
      if (item.kind === "start") {
        quieten();
        told.started(incoming);
      }
      return undefined;
    }

    function quieten() {
      if (incoming.source === "live") isAwaited = false;
      if (!isAwaited) told.notice("");
    }

    // A run was asked for, or none is any more: what was heard is not listened to again.
    function retire(isAsked) {
      isAwaited = isAsked;
      if (incoming) retired.add(incoming.id);
      for (const id of aside.keys()) retired.add(id);
      aside.clear();
    }

    function interrupt(message) {
      if (incoming && incoming.start && !incoming.isEnded) incoming.interrupted = message;
    }

    return { receive, retire, interrupt };
  }

  return { newEar };
})();
