(** JSON, and the one way in which a value is found to be wrong. *)

type t = Yojson.Safe.t

exception Wrong of string
(** A value is not of its type. The text says where in it, what was expected and what was found. *)

val wrong : ('a, unit, string, 'b) format4 -> 'a
(** Raise {!Wrong} with this text. *)

val within : string -> (unit -> 'a) -> 'a
(** Whatever is wrong in there is said to be wrong at that place. *)

val each : ('a -> 'b) -> 'a list -> 'b list
(** The items of an array, as many as there are. *)

val of_string : string -> t
(** Raises {!Wrong}: no JSON, or deeper than 1,000 levels. *)

val to_string : t -> string
(** Raises {!Wrong} for what JSON cannot say: a number that is not finite, a text that is no UTF-8. *)

val kind : t -> string
(** For people: "a text", "an array". *)

val find : (string * t) list -> string -> t option
(** A field by its name. *)

val is_utf_8 : string -> bool
