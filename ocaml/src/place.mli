(** Where a node is, and how an application proves itself there: an account and its password, or a secret. *)

type t = { uri : string; account : (string * string) option; secret : string option }

val to_json : t -> Json.t
(** As the process beside a channel reads it. *)
