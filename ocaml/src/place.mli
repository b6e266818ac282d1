(** Where a node is, and how an application proves itself there: an account and its password, or a secret. *)

type t = {
  uri : string;
  account : (string * string) option;
  secret : string option;
  ca : string option;  (** the file of those who may certify the node; the system's unless it is given *)
  certificate : (string * string) option;  (** this application's own: files of the chain and of its key *)
}

val to_json : t -> Json.t
(** As the process beside a channel reads it. *)
