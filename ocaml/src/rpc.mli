(** Calls: a request on a service's queue, its reply on the caller's own.

    All calls of one [t] share a fresh reply queue. Whoever waits first reads the replies of all, so that one session
    serves any number of calls, and of threads. *)

module Make (Io : S.IO) (Session : S.SESSION with type 'a io = 'a Io.t) :
  S.RPC with type 'a io = 'a Io.t and type session = Session.t
