(** Sessions at a node over HTTP lines that stay. A request takes a line that nobody uses, or opens one more.

    Law: a line on which anything went wrong is dropped, and the request is made again on a new one, which logs in and
    first asks again for all queues: the session may have ended with its last line. *)

module Make (Io : S.IO) : S.SESSION with type 'a io = 'a Io.t
