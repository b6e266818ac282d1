(** A message as a transfer gives it. *)

type t = {
  id : int64;  (** this node's number for it: acknowledge it by this *)
  payload : string;  (** its bytes *)
  is_text : bool;  (** they are UTF-8 *)
  correlation_id : string;  (** a whole number of 64 bits, in decimal *)
  reply_to : string;  (** where to answer; "" = nowhere *)
  redelivered : bool;  (** it may have been given before *)
  task_id : string;  (** what it was sent for; "" = nothing *)
  origin : string;  (** the node where it entered the tree; "" = the session's own *)
}

val of_transfer : string -> t list
(** The messages in the body of an answer. Raises {!Json.Wrong}. *)
