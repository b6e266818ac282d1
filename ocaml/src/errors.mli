(** How requests and calls end without a result. *)

exception Connect_failed of string
(** The node cannot be reached: at the first attempt, or until the time that a request has. *)

exception Refused of { code : string; text : string; help : string }
(** The node says no. [code]: [NOT_FOUND], [QUEUE_FULL], [TOO_LARGE] …; [help]: where it explains its protocol. *)

exception Closed
(** The session was closed. *)

exception Service of Fault.t
(** The service answered with an error. A handler raises it to do so. *)

exception Call_timeout of string
(** No reply in time. Whether it was done is not known. *)

exception Reply_lost of string
(** The reply queue went with the connection. Whether it was done is not known. *)

exception Bad_reply of string
(** A message came for a call and is no reply of its type. *)

exception Channel_failed of string
(** There is no channel. The text says why, of each way that was tried. *)

val fail_with : string -> ('a, unit, string, 'b) format4 -> 'a
(** [fail_with code form] raises {!Service}. *)

val unimplemented : string -> exn
(** A skeleton's answer. *)

val log : (string -> unit) ref
(** Gets a line for each request that a server could not answer as asked, and where a node cannot be reached for more than
    some seconds. Standard error, unless it is set. *)
