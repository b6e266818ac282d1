(** Requests and replies on the wire. *)

type t = { name : string; parameters : (string * Json.t) list; interface : string; version : string }
(** [name]: of the function, with its namespaces. [interface], [version]: "" where the caller does not say. *)

val make : ?interface:string -> ?version:string -> string -> (string * Json.t) list -> t
(** Parameters that are null are left out. *)

val inputs : t -> string list -> (string * Json.t) list
(** The parameters. Raises {!Json.Wrong} if one is none of these. *)

val to_string : t -> string
val of_string : string -> t
val result : Json.t -> string
val error : Fault.t -> string

val answer : string -> (Json.t, Fault.t) result
(** What a reply says. Raises {!Json.Wrong} for what is none. *)
