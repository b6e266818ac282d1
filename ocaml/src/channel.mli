(** A channel in a message: the URLs at which it is taken, and the secret that is shown there, once.

    Law: a message can come from anybody. An application that takes a channel dials only addresses of the forms that
    {!place} knows, and says nothing there but a secret of its one form. *)

type t = { urls : string list; secret : string }

type way = Unix | Tcp | Tree  (** how its bytes go, the most efficient first *)

val ways : way list
val name : way -> string

val to_json : t -> Json.t
val of_json : Json.t -> t
(** Both raise {!Json.Wrong}: 1 to 16 URLs of 200 characters at most, and a secret of 43. *)

val to_string : t -> string
val of_string : string -> t

val sample : t
(** A value for tests: there is no such channel. *)

(** {1 For those who take one} *)

type place = At_socket of string | At_address of Unix.inet_addr * int | At_node of string * string

val way : place -> way

val place : string -> place option
(** None: no way that is known. *)
