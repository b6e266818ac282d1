(** Why a call has no result. [code] is for programs, [message] for people, [data] for both. *)

type t = { code : string; message : string; data : Json.t }

val make : ?data:Json.t -> string -> string -> t
(** [make code message] *)

val declared : string -> string -> Json.t -> t
(** [declared code about value]: an error that an interface declares; null without a value. *)

val to_json : t -> Json.t
val of_json : Json.t -> t

(** {1 Codes of the library itself} *)

val bad_request : string
val bad_parameters : string
val unknown_interface : string
val unknown_version : string
val unknown_method : string
val unimplemented : string
val failed : string
val result_too_large : string
val nobody_serves : string
