// Hears envelopes: drops what is a repeat or of an older run, holds back what comes early, and adds
// the rest to the run it is of. What is to be said or shown is told to `told`.

const SpecVizHear = (function () {
  const { newRun, addItem } = SpecVizRun;

  // `told` is {started(run), notice(...), fail(message, kind), complete()}.
  function newEar(told) {
    const retired = new Set();
    let incoming = null;

    function receive(text) {
      const envelope = JSON.parse(text);
      if (envelope.v !== 1) {
        told.fail(["stage.too_old", {}]);
        return null;
      }
      if (retired.has(envelope.run)) return incoming;
      if (!incoming || incoming.id !== envelope.run) {
        if (incoming) retired.add(incoming.id);
        incoming = newRun(envelope);
        told.fail("");
      }
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

    function take(item) {
      if (item.kind === "progress") return told.notice(item.message, item.done, item.total, item.stage);
      if (item.kind === "failure") {
        told.notice("");
        return told.fail(item.message);
      }
      addItem(incoming, item);
      if (item.kind === "start") {
        told.notice("");
        told.started(incoming);
      }
      return undefined;
    }

    // A run was asked for: the one that was heard is not listened to again.
    function retire() {
      if (incoming) retired.add(incoming.id);
    }

    function interrupt(message) {
      if (incoming && incoming.start && !incoming.isEnded) incoming.interrupted = message;
    }

    return { receive, retire, interrupt };
  }

  return { newEar };
})();
