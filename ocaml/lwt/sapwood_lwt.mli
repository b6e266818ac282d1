(** Sessions and calls for programs that use Lwt. *)

module Task : Sapwood.S.TASK with type 'a io := 'a Lwt.t
module Session : Sapwood.S.SESSION with type 'a io = 'a Lwt.t
module Rpc : Sapwood.S.RPC with type 'a io = 'a Lwt.t and type session = Session.t

module Channel : sig
  include Sapwood.S.CHANNEL with type 'a io := 'a Lwt.t and type session := Session.t

  val lwt : Unix.file_descr -> Lwt_io.input_channel * Lwt_io.output_channel
  (** An end as channels of Lwt, which own the descriptor from now on. To close the output ends that direction; the
      descriptor is closed with both. *)
end
